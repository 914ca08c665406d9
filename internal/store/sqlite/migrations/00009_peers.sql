-- +goose Up

-- What is kept of peers: those that were added while the node ran, and what was
-- observed of all of them.
CREATE TABLE peers (
  name    TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  added   BLOB, -- sealed
  pinned  TEXT NOT NULL,
  card    BLOB,
  digest  TEXT NOT NULL,
  held    BLOB,
  tokens  BLOB, -- sealed
  facts   BLOB,
  seen    INTEGER NOT NULL -- milliseconds; 0: never
) WITHOUT ROWID;
