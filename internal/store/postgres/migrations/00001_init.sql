-- +goose Up

-- What people and programs name is kept as bytea, since text cannot hold U+0000
-- and depends on the encoding of the database and on its collations.

-- The lowest version of these tables that a program must know to use them. A
-- program that is older than the tables, but not than this, may go on.
CREATE TABLE schema_info (
  one         smallint PRIMARY KEY CHECK (one = 1),
  min_program integer NOT NULL
);
INSERT INTO schema_info VALUES (1, 1);

CREATE SEQUENCE task_keys;
CREATE SEQUENCE job_ids;
CREATE SEQUENCE epochs;

-- The clock of the store. Each transaction that commits changes takes a unit of
-- it: the bits from 20 up are milliseconds, those from 12 up number the units,
-- and the low 12 bits number the statuses of one transaction. So revisions
-- order statuses, are never given twice, and hold the time of the commit.
CREATE SEQUENCE revisions;

-- tick takes a unit and returns its first revision. It is later than all units
-- before it even if the clock of the machine was set back. An advisory lock
-- shows in pg_locks that the unit is in flight until its transaction has ended;
-- it is taken before others can see that the unit is given away.
-- +goose StatementBegin
CREATE FUNCTION tick() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  ticking  CONSTANT integer := 'task_keys'::regclass::oid::integer;
  inflight CONSTANT integer := 'revisions'::regclass::oid::integer;
  unit bigint;
  name bigint;
BEGIN
  PERFORM pg_advisory_lock(ticking, 0);
  SELECT greatest((last_value >> 12) + 1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint << 8) INTO unit FROM revisions;
  name := unit & 4294967295;
  IF name >= 2147483648 THEN
    name := name - 4294967296;
  END IF;
  PERFORM pg_advisory_xact_lock(inflight, name::integer);
  PERFORM setval('revisions', (unit << 12) | 4095);
  PERFORM pg_advisory_unlock(ticking, 0);
  RETURN unit << 12;
END $$;
-- +goose StatementEnd

-- horizon returns the newest revision that was given away, the units up to it
-- (their low 32 bits) whose transactions have not ended, and the newest key of
-- a task. What a snapshot taken later shows of other units is all there is.
-- +goose StatementBegin
CREATE FUNCTION horizon(OUT revision bigint, OUT inflight bigint[], OUT newest_key bigint) LANGUAGE plpgsql AS $$
BEGIN
  SELECT last_value INTO revision FROM revisions;
  inflight := ARRAY(SELECT l.objid::bigint FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = 'revisions'::regclass::oid
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()));
  SELECT last_value INTO newest_key FROM task_keys;
END $$;
-- +goose StatementEnd

-- The number of the last transaction of each connection that commits changes.
-- It tells what became of one whose answer was lost.
CREATE TABLE committers (
  id    bytea PRIMARY KEY,
  batch bigint NOT NULL,
  used  bigint NOT NULL
) WITH (fillfactor = 50);

-- A realm is one agent of one owner: what a caller lists.
CREATE TABLE realms (
  id     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant bytea NOT NULL,
  owner  bytea NOT NULL,
  agent  bytea NOT NULL,
  UNIQUE (tenant, owner, agent)
);

CREATE TABLE tasks (
  key          bigint PRIMARY KEY,
  rev          bigint NOT NULL, -- of the current status; orders lists
  lease        bigint NOT NULL,
  created      bigint NOT NULL, -- milliseconds, as all times
  expires      bigint NOT NULL, -- 0: never
  realm        integer NOT NULL,
  seq          integer NOT NULL,
  status_row   integer NOT NULL, -- newest row of events with a status
  artifact_row integer NOT NULL, -- newest with an artifact; 0: none
  message_row  integer NOT NULL, -- newest with something for the history; 0: none
  turn         integer NOT NULL,
  attempt      integer NOT NULL,
  done         integer NOT NULL,
  messages     integer NOT NULL,
  read         integer NOT NULL,
  since        integer NOT NULL,
  state        smallint NOT NULL,
  wait         smallint NOT NULL,
  id           bytea NOT NULL,
  context      bytea NOT NULL,
  meta         bytea
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX tasks_id ON tasks (id);
-- Written so that only those who ask for it get it: for the newest tasks of one
-- realm in a state that has few, a planner that may choose this index would
-- read all of it.
CREATE INDEX tasks_rev ON tasks ((rev + 0));
CREATE INDEX tasks_state ON tasks (realm, state, rev);
CREATE INDEX tasks_context ON tasks (context, realm, state, rev);
CREATE INDEX tasks_lease ON tasks (lease) WHERE lease > 0;
CREATE INDEX tasks_expires ON tasks (expires) WHERE expires > 0 AND state IN (3, 4, 5, 7);

-- One row for the events of a change, with the sequence number of the last of
-- them. Rows never change. Each points back to the newest rows before it that
-- have a status, an artifact, or something for the history, so that none of
-- them is found by reading the others.
CREATE TABLE events (
  task          bigint NOT NULL,
  rev           bigint NOT NULL, -- of the status in it; 0: none
  seq           integer NOT NULL,
  prev_status   integer NOT NULL,
  prev_artifact integer NOT NULL,
  prev_message  integer NOT NULL,
  body          bytea NOT NULL,
  PRIMARY KEY (task, seq)
);

-- Tasks that are gone but for their events, which are too many to be removed in
-- one transaction.
CREATE TABLE purge (
  task bigint PRIMARY KEY
);

-- How many tasks there are, for the totals of lists: what was folded, and what
-- has changed since. Every commit appends to the deltas, so that no row is one
-- that all have to wait for.
CREATE TABLE totals (
  realm integer NOT NULL,
  state smallint NOT NULL,
  n     bigint NOT NULL,
  PRIMARY KEY (realm, state)
) WITH (fillfactor = 50);
CREATE TABLE total_deltas (
  realm integer NOT NULL,
  state smallint NOT NULL,
  n     bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX total_deltas_realm ON total_deltas (realm, state);
CREATE TABLE context_totals (
  realm   integer NOT NULL,
  state   smallint NOT NULL,
  n       bigint NOT NULL,
  context bytea NOT NULL,
  PRIMARY KEY (context, realm, state)
) WITH (fillfactor = 85);
CREATE TABLE context_deltas (
  realm   integer NOT NULL,
  state   smallint NOT NULL,
  n       bigint NOT NULL,
  context bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
CREATE INDEX context_deltas_context ON context_deltas (context, realm, state);

CREATE TABLE private (
  task  bigint PRIMARY KEY,
  state bytea NOT NULL
);

CREATE TABLE results (
  task  bigint NOT NULL,
  key   bytea NOT NULL,
  value bytea NOT NULL,
  PRIMARY KEY (task, key)
);

CREATE TABLE claims (
  lease   bigint NOT NULL,
  expires bigint NOT NULL, -- 0: never
  realm   integer NOT NULL,
  key     bytea NOT NULL,
  hash    bytea,
  task    bytea NOT NULL,
  reply   bytea,
  PRIMARY KEY (realm, key)
);
CREATE INDEX claims_expires ON claims (expires) WHERE expires > 0;

CREATE TABLE grants (
  turn      integer NOT NULL,
  created   bigint NOT NULL,
  expires   bigint NOT NULL,
  decided   bigint NOT NULL, -- 0: not yet
  approved  smallint NOT NULL,
  id        bytea PRIMARY KEY,
  task      bytea NOT NULL,
  operation bytea NOT NULL,
  text      bytea NOT NULL,
  url       bytea NOT NULL,
  note      bytea NOT NULL,
  data      bytea,
  decider   bytea NOT NULL
);
CREATE INDEX grants_task ON grants (task);
CREATE INDEX grants_open ON grants (created, id) WHERE decided = 0;

CREATE TABLE jobs (
  id      bigint PRIMARY KEY,
  due     bigint NOT NULL,
  turn    integer NOT NULL,
  attempt integer NOT NULL,
  kind    bytea NOT NULL,
  task    bytea NOT NULL,
  key     bytea NOT NULL,
  UNIQUE (task, kind, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX jobs_due ON jobs (due, id);

CREATE TABLE nodes (
  epoch   bigint PRIMARY KEY,
  expires bigint NOT NULL,
  node    bytea NOT NULL
);
