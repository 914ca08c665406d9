CREATE TABLE article (
  sku  TEXT PRIMARY KEY,
  name TEXT NOT NULL
) STRICT;

CREATE TABLE purchase_order (
  number     TEXT PRIMARY KEY,
  task       TEXT NOT NULL UNIQUE, -- that buys it
  sku        TEXT NOT NULL REFERENCES article (sku),
  units      INTEGER NOT NULL,
  warehouse  TEXT NOT NULL,
  status     TEXT NOT NULL DEFAULT 'asking' CHECK (status IN ('asking', 'draft', 'failed', 'posted')),
  incoterm   TEXT,
  unit_price INTEGER,
  amount     INTEGER,
  lead_days  INTEGER
) STRICT;

-- What was handed to other agents for an order, and what came of it. One that is
-- open is found by the order's number, which is its reference.
CREATE TABLE delegation (
  id             TEXT PRIMARY KEY,
  purchase_order TEXT NOT NULL REFERENCES purchase_order (number),
  agent          TEXT NOT NULL,
  state          TEXT NOT NULL,
  outcome        TEXT NOT NULL
) STRICT;

INSERT INTO article VALUES ('BRG-0042', 'Ball bearing 42 mm'), ('BRG-0043', 'Ball bearing 43 mm');
