-- +goose Up

-- What is kept of peers: those that were added while the node ran, and what was
-- observed of all of them.
CREATE TABLE peers (
  name    bytea PRIMARY KEY,
  version bigint NOT NULL,
  added   bytea, -- sealed
  pinned  bytea NOT NULL,
  card    bytea,
  digest  bytea NOT NULL,
  held    bytea,
  tokens  bytea, -- sealed
  facts   bytea,
  seen    bigint NOT NULL -- milliseconds; 0: never
);
