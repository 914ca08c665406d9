-- +goose Up

-- Where the events of tasks are sent. What is to be sent are the events after
-- seq, so that there is no second copy of them.
CREATE TABLE webhooks (
  task     INTEGER NOT NULL, -- key
  id       TEXT NOT NULL,
  url      TEXT NOT NULL,
  scheme   TEXT NOT NULL,
  secrets  BLOB,             -- sealed
  created  INTEGER NOT NULL,
  seq      INTEGER NOT NULL, -- of the last event that was sent
  failures INTEGER NOT NULL, -- in a row
  failing  INTEGER NOT NULL, -- since; 0: not
  stuck    INTEGER NOT NULL, -- the event that could not be sent; 0: none
  error    TEXT NOT NULL,
  dead     INTEGER NOT NULL, -- when it was given up; 0: it was not
  PRIMARY KEY (task, id)
) WITHOUT ROWID;
CREATE INDEX webhooks_failing ON webhooks (failing) WHERE failing > 0 AND dead = 0;
CREATE INDEX webhooks_dead ON webhooks (dead, task, id) WHERE dead > 0;

-- How many webhooks a task has, so that a commit knows without looking.
ALTER TABLE tasks ADD COLUMN webhooks INTEGER NOT NULL DEFAULT 0;
