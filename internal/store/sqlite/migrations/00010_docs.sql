-- +goose Up

-- Small documents of parts that have no tables of their own.
CREATE TABLE docs (
  space   TEXT NOT NULL,
  key     TEXT NOT NULL,
  version INTEGER NOT NULL,
  expires INTEGER NOT NULL, -- milliseconds; 0: never
  tenant  TEXT NOT NULL,
  owner   TEXT NOT NULL,
  body    BLOB,
  secret  BLOB, -- sealed
  PRIMARY KEY (space, key)
) WITHOUT ROWID;
CREATE INDEX docs_expires ON docs (expires) WHERE expires > 0;
CREATE INDEX docs_secret ON docs (space, key) WHERE secret IS NOT NULL;

-- Counters that begin again at a time.
CREATE TABLE counters (
  space   TEXT NOT NULL,
  key     TEXT NOT NULL,
  used    INTEGER NOT NULL,
  expires INTEGER NOT NULL, -- milliseconds
  PRIMARY KEY (space, key)
) WITHOUT ROWID;
CREATE INDEX counters_expires ON counters (expires);
