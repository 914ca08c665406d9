-- +goose Up

-- What was handed to other agents: a row beside each task that is a delegation.
-- Whose it is stands here too, since it cannot change and lists go by it. Times
-- are in milliseconds, 0 for none.
CREATE TABLE delegations (
  task           INTEGER PRIMARY KEY, -- key
  tenant         TEXT NOT NULL,
  owner          TEXT NOT NULL,
  peer           TEXT NOT NULL,
  ref            TEXT NOT NULL,
  again          INTEGER NOT NULL, -- 1: beside others of the same reference
  closed         INTEGER NOT NULL, -- 1: the task is terminal
  root           TEXT NOT NULL,
  parent         TEXT NOT NULL,
  turn           INTEGER NOT NULL,
  depth          INTEGER NOT NULL,
  asked          TEXT NOT NULL,
  deadline       INTEGER NOT NULL,
  message        TEXT NOT NULL,
  number         INTEGER NOT NULL,
  send           INTEGER NOT NULL,
  remote_task    TEXT NOT NULL,
  remote_context TEXT NOT NULL,
  remote_state   INTEGER NOT NULL,
  remote_digest  TEXT NOT NULL,
  seen           INTEGER NOT NULL,
  channel        INTEGER NOT NULL,
  attempts       INTEGER NOT NULL,
  error          TEXT NOT NULL,
  interface      TEXT NOT NULL,
  card_digest    TEXT NOT NULL,
  token          BLOB, -- hash
  secret         BLOB, -- sealed
  push           TEXT NOT NULL,
  recalled       INTEGER NOT NULL
);
CREATE INDEX delegations_tenant ON delegations (tenant, task);
CREATE INDEX delegations_owner ON delegations (tenant, owner, task);
CREATE INDEX delegations_peer ON delegations (peer, task);
CREATE INDEX delegations_root ON delegations (root, task);
CREATE INDEX delegations_ref ON delegations (ref, task) WHERE ref <> '';
CREATE INDEX delegations_open ON delegations (task) WHERE closed = 0;
CREATE INDEX delegations_children ON delegations (parent, task) WHERE closed = 0 AND parent <> '';
CREATE INDEX delegations_sealed ON delegations (task) WHERE secret IS NOT NULL;
CREATE UNIQUE INDEX delegations_taken ON delegations (tenant, owner, peer, ref) WHERE closed = 0 AND again = 0 AND ref <> '';

-- Whether a task is one, so that a commit knows without looking.
ALTER TABLE tasks ADD COLUMN delegated INTEGER NOT NULL DEFAULT 0;
