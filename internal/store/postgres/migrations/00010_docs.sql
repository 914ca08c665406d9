-- +goose Up

-- Small documents of parts that have no tables of their own.
CREATE TABLE docs (
  space   bytea NOT NULL,
  key     bytea NOT NULL,
  version bigint NOT NULL,
  expires bigint NOT NULL, -- milliseconds; 0: never
  tenant  bytea NOT NULL,
  owner   bytea NOT NULL,
  body    bytea,
  secret  bytea, -- sealed
  PRIMARY KEY (space, key)
);
CREATE INDEX docs_expires ON docs (expires) WHERE expires > 0;
CREATE INDEX docs_secret ON docs (space, key) WHERE secret IS NOT NULL;

-- Counters that begin again at a time.
CREATE TABLE counters (
  space   bytea NOT NULL,
  key     bytea NOT NULL,
  used    bigint NOT NULL,
  expires bigint NOT NULL, -- milliseconds
  PRIMARY KEY (space, key)
);
CREATE INDEX counters_expires ON counters (expires);
