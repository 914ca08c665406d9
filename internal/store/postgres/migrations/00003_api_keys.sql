-- +goose Up

-- API keys of callers. The hash is of the whole key; scopes have spaces between
-- them. Times are in milliseconds, 0 for none.
CREATE TABLE api_keys (
  created bigint NOT NULL,
  expires bigint NOT NULL,
  revoked bigint NOT NULL,
  used    bigint NOT NULL,
  id      bytea PRIMARY KEY,
  hash    bytea NOT NULL,
  subject bytea NOT NULL,
  tenant  bytea NOT NULL,
  role    bytea NOT NULL,
  scopes  bytea NOT NULL,
  creator bytea NOT NULL
);
