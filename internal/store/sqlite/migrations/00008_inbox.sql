-- +goose Up

-- What waits for a person. Open items are in the order of when they are due,
-- and those without a due date behind them; settled ones in that of when they
-- were settled: rank is that time in milliseconds.
CREATE TABLE inbox (
  n        INTEGER PRIMARY KEY AUTOINCREMENT,
  id       TEXT NOT NULL UNIQUE,
  rank     INTEGER NOT NULL,
  closed   INTEGER NOT NULL, -- 1: settled
  kind     INTEGER NOT NULL,
  task     TEXT NOT NULL, -- id; '': none
  tenant   TEXT NOT NULL,
  owner    TEXT NOT NULL,
  turn     INTEGER NOT NULL,
  grant_id TEXT NOT NULL,
  agent    TEXT NOT NULL,
  peer     INTEGER NOT NULL, -- 1: agent is the name of a peer
  ref      TEXT NOT NULL,
  text     TEXT NOT NULL,
  schema   BLOB,
  url      TEXT NOT NULL,
  op       TEXT NOT NULL,
  created  INTEGER NOT NULL,
  due      INTEGER NOT NULL, -- 0: none
  assignee TEXT NOT NULL,
  reminded INTEGER NOT NULL,
  settled  INTEGER NOT NULL, -- 0: open
  decider  TEXT NOT NULL,
  decision TEXT NOT NULL,
  words    TEXT NOT NULL
);
CREATE INDEX inbox_rank ON inbox (closed, rank, n);
CREATE INDEX inbox_tenant ON inbox (tenant, closed, rank, n);
CREATE INDEX inbox_owner ON inbox (tenant, owner, closed, rank, n);
CREATE INDEX inbox_task ON inbox (task, closed, rank, n);
CREATE INDEX inbox_assignee ON inbox (assignee, closed, rank, n) WHERE assignee <> '';

-- What happened to items, in order.
CREATE TABLE inbox_history (
  n      INTEGER PRIMARY KEY,
  item   TEXT NOT NULL, -- id
  at     INTEGER NOT NULL,
  doer   TEXT NOT NULL,
  what   TEXT NOT NULL,
  words  TEXT NOT NULL
);
CREATE INDEX inbox_history_item ON inbox_history (item, n);
