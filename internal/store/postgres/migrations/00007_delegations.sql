-- +goose Up

-- What was handed to other agents: a row beside each task that is a delegation.
-- Whose it is stands here too, since it cannot change and lists go by it. Times
-- are in milliseconds, 0 for none.
CREATE TABLE delegations (
  task           bigint PRIMARY KEY, -- key
  tenant         bytea NOT NULL,
  owner          bytea NOT NULL,
  peer           bytea NOT NULL,
  ref            bytea NOT NULL,
  again          integer NOT NULL, -- 1: beside others of the same reference
  closed         integer NOT NULL, -- 1: the task is terminal
  root           bytea NOT NULL,
  parent         bytea NOT NULL,
  turn           integer NOT NULL,
  depth          integer NOT NULL,
  asked          bytea NOT NULL,
  deadline       bigint NOT NULL,
  message        bytea NOT NULL,
  number         bigint NOT NULL,
  send           integer NOT NULL,
  remote_task    bytea NOT NULL,
  remote_context bytea NOT NULL,
  remote_state   integer NOT NULL,
  remote_digest  bytea NOT NULL,
  seen           bigint NOT NULL,
  channel        integer NOT NULL,
  attempts       integer NOT NULL,
  error          bytea NOT NULL,
  interface      bytea NOT NULL,
  card_digest    bytea NOT NULL,
  token          bytea, -- hash
  secret         bytea, -- sealed
  push           bytea NOT NULL,
  recalled       integer NOT NULL
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
ALTER TABLE tasks ADD COLUMN delegated integer NOT NULL DEFAULT 0;
