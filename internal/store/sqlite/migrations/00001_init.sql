-- +goose Up

-- The counters of the store, written once in every commit. They only grow, so
-- that no number is given twice, whatever is deleted meanwhile.
CREATE TABLE clock (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  at    INTEGER NOT NULL, -- time of the last commit, milliseconds
  rev   INTEGER NOT NULL, -- of the newest status
  key   INTEGER NOT NULL, -- of the newest task
  realm INTEGER NOT NULL,
  job   INTEGER NOT NULL,
  epoch INTEGER NOT NULL
);
INSERT INTO clock VALUES (1, 0, 0, 0, 100, 0, 0);

-- A realm is one agent of one owner: what a caller lists.
CREATE TABLE realms (
  id     INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  owner  TEXT NOT NULL,
  agent  TEXT NOT NULL,
  UNIQUE (tenant, owner, agent)
);

CREATE TABLE tasks (
  key          INTEGER PRIMARY KEY,
  id           TEXT NOT NULL,
  realm        INTEGER NOT NULL,
  context      TEXT NOT NULL,
  state        INTEGER NOT NULL,
  wait         INTEGER NOT NULL,
  seq          INTEGER NOT NULL,
  rev          INTEGER NOT NULL, -- of the current status; orders lists
  status_at    INTEGER NOT NULL, -- never decreases as rev grows
  status_row   INTEGER NOT NULL, -- newest row of events with a status
  artifact_row INTEGER NOT NULL, -- newest with an artifact; 0: none
  message_row  INTEGER NOT NULL, -- newest with something for the history; 0: none
  lease        INTEGER NOT NULL,
  turn         INTEGER NOT NULL,
  attempt      INTEGER NOT NULL,
  done         INTEGER NOT NULL,
  messages     INTEGER NOT NULL,
  read         INTEGER NOT NULL,
  since        INTEGER NOT NULL,
  created      INTEGER NOT NULL,
  expires      INTEGER NOT NULL, -- 0: never
  meta         BLOB
);
CREATE UNIQUE INDEX tasks_id ON tasks (id);
CREATE INDEX tasks_rev ON tasks (rev);
CREATE INDEX tasks_state ON tasks (realm, state, rev);
CREATE INDEX tasks_context ON tasks (realm, context, state, rev);
CREATE INDEX tasks_lease ON tasks (lease) WHERE lease > 0;
CREATE INDEX tasks_expires ON tasks (expires) WHERE expires > 0;

-- One row for the events of a change. The id is the key of the task and the
-- sequence number of the last event in the row. Each row points back to the
-- newest rows before it that have a status, an artifact, or something for the
-- history, so that none of them is found by reading the others.
CREATE TABLE events (
  id            INTEGER PRIMARY KEY,
  rev           INTEGER NOT NULL, -- of the status in it; 0: none
  prev_status   INTEGER NOT NULL,
  prev_artifact INTEGER NOT NULL,
  prev_message  INTEGER NOT NULL,
  body          BLOB NOT NULL
);

-- Tasks that are gone but for their events, which are too many to be removed in
-- one transaction.
CREATE TABLE purge (
  task INTEGER PRIMARY KEY
);

-- How many tasks there are, for the totals of lists. Rows of 0 are removed.
CREATE TABLE totals (
  realm INTEGER NOT NULL,
  state INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (realm, state)
) WITHOUT ROWID;
CREATE TABLE context_totals (
  realm   INTEGER NOT NULL,
  context TEXT NOT NULL,
  state   INTEGER NOT NULL,
  n       INTEGER NOT NULL,
  PRIMARY KEY (realm, context, state)
) WITHOUT ROWID;

CREATE TABLE private (
  task  INTEGER PRIMARY KEY,
  state BLOB NOT NULL
);

CREATE TABLE results (
  task  INTEGER NOT NULL,
  key   TEXT NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (task, key)
);

CREATE TABLE claims (
  realm   INTEGER NOT NULL,
  key     TEXT NOT NULL,
  hash    BLOB,
  lease   INTEGER NOT NULL,
  task    TEXT NOT NULL,
  reply   BLOB,
  expires INTEGER NOT NULL, -- 0: never
  PRIMARY KEY (realm, key)
);
CREATE INDEX claims_expires ON claims (expires) WHERE expires > 0;

CREATE TABLE grants (
  id        TEXT PRIMARY KEY,
  task      TEXT NOT NULL,
  turn      INTEGER NOT NULL,
  operation TEXT NOT NULL,
  text      TEXT NOT NULL,
  url       TEXT NOT NULL,
  created   INTEGER NOT NULL,
  expires   INTEGER NOT NULL,
  decided   INTEGER NOT NULL, -- 0: not yet
  approved  INTEGER NOT NULL,
  note      TEXT NOT NULL,
  data      BLOB,
  decider   TEXT NOT NULL
);
CREATE INDEX grants_task ON grants (task);
CREATE INDEX grants_open ON grants (created, id) WHERE decided = 0;

CREATE TABLE jobs (
  id      INTEGER PRIMARY KEY,
  kind    TEXT NOT NULL,
  task    TEXT NOT NULL,
  key     TEXT NOT NULL,
  turn    INTEGER NOT NULL,
  due     INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  UNIQUE (task, kind, key)
);
CREATE INDEX jobs_due ON jobs (due);

CREATE TABLE nodes (
  epoch   INTEGER PRIMARY KEY,
  node    TEXT NOT NULL,
  expires INTEGER NOT NULL
);
