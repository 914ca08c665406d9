-- +goose Up

-- The version of the protocol that a receiver is sent; '' is 1.0.
ALTER TABLE webhooks ADD COLUMN version bytea NOT NULL DEFAULT '';
