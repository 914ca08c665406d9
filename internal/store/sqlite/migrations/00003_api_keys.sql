-- +goose Up

-- API keys of callers. The hash is of the whole key; scopes have spaces between
-- them. Times are in milliseconds, 0 for none.
CREATE TABLE api_keys (
  id      TEXT PRIMARY KEY,
  hash    BLOB NOT NULL,
  subject TEXT NOT NULL,
  tenant  TEXT NOT NULL,
  role    TEXT NOT NULL,
  scopes  TEXT NOT NULL,
  created INTEGER NOT NULL,
  creator TEXT NOT NULL,
  expires INTEGER NOT NULL,
  revoked INTEGER NOT NULL,
  used    INTEGER NOT NULL
) WITHOUT ROWID;
