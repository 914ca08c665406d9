-- +goose Up

-- When the events were committed, and under which turn, attempt and wait of their
-- task, in one number; 0 for events that are older than this.
ALTER TABLE events ADD COLUMN mark bigint NOT NULL DEFAULT 0;
