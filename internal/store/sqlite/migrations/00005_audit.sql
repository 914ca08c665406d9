-- +goose Up

-- Who did what, in the order in which it was recorded. Rows never change. The
-- body is the JSON that goes out; what is beside it is what can be asked for.
CREATE TABLE audit (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  at      INTEGER NOT NULL, -- milliseconds
  subject TEXT NOT NULL,
  task    TEXT NOT NULL,
  body    BLOB NOT NULL
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_subject ON audit (subject, id);
CREATE INDEX audit_task ON audit (task, id) WHERE task > '';
