-- +goose Up

-- The lowest version of these tables that a program must know to use them, and
-- a random name of the store.
CREATE TABLE schema_info (
  one         INTEGER PRIMARY KEY CHECK (one = 1),
  min_program INTEGER NOT NULL,
  cluster     TEXT NOT NULL
);
INSERT INTO schema_info VALUES (1, 1, lower(hex(randomblob(16))));

-- What a node says of itself. The digest is that of its configuration, as JSON.
ALTER TABLE nodes ADD COLUMN started INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN version TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN url TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN digest BLOB NOT NULL DEFAULT x'7b7d';
