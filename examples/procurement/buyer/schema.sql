-- What is to be bought, and how far that is. The orders themselves stand in the ERP
-- system, which is behind the gateway.
CREATE TABLE request (
  number     TEXT PRIMARY KEY, -- of the order to be
  task       TEXT NOT NULL UNIQUE, -- that buys it
  sku        TEXT NOT NULL,
  units      INTEGER NOT NULL,
  warehouse  TEXT NOT NULL,
  status     TEXT NOT NULL DEFAULT 'asking' CHECK (status IN ('asking', 'credited', 'approving', 'drafted', 'failed')),
  incoterm   TEXT,
  unit_price INTEGER,
  lead_days  INTEGER
) STRICT;

-- What was handed to other agents for a request, and what came of it. One that is
-- open is found by the order's number, which is its reference.
CREATE TABLE delegation (
  id      TEXT PRIMARY KEY,
  request TEXT NOT NULL REFERENCES request (number),
  agent   TEXT NOT NULL,
  state   TEXT NOT NULL,
  outcome TEXT NOT NULL
) STRICT;
