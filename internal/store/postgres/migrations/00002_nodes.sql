-- +goose Up

-- A random name that all nodes of these tables share.
ALTER TABLE schema_info ADD COLUMN cluster text NOT NULL DEFAULT replace(gen_random_uuid()::text, '-', '');

-- What a node says of itself, and how long its leases are, in milliseconds. The
-- digest is that of its configuration, as JSON. Nodes of a program that knows
-- version 1 have the defaults.
ALTER TABLE nodes
  ADD COLUMN started bigint NOT NULL DEFAULT 0,
  ADD COLUMN lease bigint NOT NULL DEFAULT 0,
  ADD COLUMN version bytea NOT NULL DEFAULT '',
  ADD COLUMN url bytea NOT NULL DEFAULT '',
  ADD COLUMN digest bytea NOT NULL DEFAULT '{}';

-- By default a fifth of the rows may be dead before anybody cleans up.
ALTER TABLE events SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
