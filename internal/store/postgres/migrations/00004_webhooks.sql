-- +goose Up

-- Where the events of tasks are sent. What is to be sent are the events after
-- seq, so that there is no second copy of them.
CREATE TABLE webhooks (
  task     bigint NOT NULL, -- key
  created  bigint NOT NULL,
  failing  bigint NOT NULL, -- since; 0: not
  dead     bigint NOT NULL, -- when it was given up; 0: it was not
  seq      integer NOT NULL, -- of the last event that was sent
  failures integer NOT NULL, -- in a row
  stuck    integer NOT NULL, -- the event that could not be sent; 0: none
  id       bytea NOT NULL,
  url      bytea NOT NULL,
  scheme   bytea NOT NULL,
  secrets  bytea,            -- sealed
  error    bytea NOT NULL,
  PRIMARY KEY (task, id)
) WITH (fillfactor = 80);
CREATE INDEX webhooks_failing ON webhooks (failing) WHERE failing > 0 AND dead = 0;
CREATE INDEX webhooks_dead ON webhooks (dead, task, id) WHERE dead > 0;

-- How many webhooks a task has, so that a commit knows without looking.
ALTER TABLE tasks ADD COLUMN webhooks integer NOT NULL DEFAULT 0;
