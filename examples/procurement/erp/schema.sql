CREATE TABLE article (
  sku   TEXT PRIMARY KEY,
  name  TEXT NOT NULL,
  price INTEGER NOT NULL -- what a unit was bought for last, in rupiah
) STRICT;

CREATE TABLE warehouse (
  code TEXT PRIMARY KEY,
  city TEXT NOT NULL
) STRICT;

-- What came and what went. The stock is the sum.
CREATE TABLE movement (
  id        INTEGER PRIMARY KEY,
  sku       TEXT NOT NULL REFERENCES article (sku),
  warehouse TEXT NOT NULL REFERENCES warehouse (code),
  period    TEXT NOT NULL, -- a month: 2026-09
  units     INTEGER NOT NULL,
  unit_cost INTEGER NOT NULL DEFAULT 0, -- of what came, in rupiah
  document  TEXT UNIQUE -- that it was posted with
) STRICT;
CREATE INDEX movement_sku ON movement (sku, warehouse);

CREATE TABLE purchase_order (
  number     TEXT PRIMARY KEY,
  sku        TEXT NOT NULL REFERENCES article (sku),
  units      INTEGER NOT NULL CHECK (units > 0),
  warehouse  TEXT NOT NULL REFERENCES warehouse (code),
  incoterm   TEXT NOT NULL,
  unit_price INTEGER NOT NULL,
  total      INTEGER NOT NULL CHECK (total = units * unit_price),
  lead_days  INTEGER NOT NULL,
  status     TEXT NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'posted')),
  posted_by  TEXT CHECK (status = 'draft' OR posted_by IS NOT NULL)
) STRICT;

CREATE TABLE goods_receipt (
  number         TEXT PRIMARY KEY,
  purchase_order TEXT NOT NULL REFERENCES purchase_order (number),
  units          INTEGER NOT NULL CHECK (units > 0),
  status         TEXT NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'posted')),
  posted_by      TEXT CHECK (status = 'draft' OR posted_by IS NOT NULL)
) STRICT;

-- Calls that have made something. One that comes again has the answer of the first.
CREATE TABLE made (
  tool      TEXT NOT NULL,
  key       TEXT NOT NULL, -- idempotency key
  arguments TEXT NOT NULL,
  answer    TEXT NOT NULL,
  PRIMARY KEY (tool, key)
) STRICT;

-- A valuation that was begun has a row for each article that it has done, and goes
-- on where it was when it stopped.
CREATE TABLE valuation (
  id       INTEGER PRIMARY KEY,
  period   TEXT NOT NULL,
  movement INTEGER NOT NULL, -- the newest that it counts
  begun    INTEGER NOT NULL DEFAULT 1, -- how often it was begun or gone on with
  finished INTEGER NOT NULL DEFAULT 0,
  UNIQUE (period, movement)
) STRICT;

CREATE TABLE valued (
  valuation INTEGER NOT NULL REFERENCES valuation (id),
  sku       TEXT NOT NULL REFERENCES article (sku),
  units     INTEGER NOT NULL,
  value     INTEGER NOT NULL,
  PRIMARY KEY (valuation, sku)
) STRICT;

INSERT INTO warehouse VALUES ('SBY', 'Surabaya'), ('SRG', 'Semarang');

WITH RECURSIVE size (mm) AS (SELECT 1 UNION ALL SELECT mm + 1 FROM size WHERE mm < 60)
INSERT INTO article SELECT printf('BRG-%04d', mm), printf('Ball bearing %d mm', mm), 112000 + 250 * mm FROM size;

INSERT INTO movement (sku, warehouse, period, units, unit_cost)
  SELECT sku, code, '2026-08', 300, price - 4000 FROM article, warehouse;
INSERT INTO movement (sku, warehouse, period, units, unit_cost)
  SELECT sku, code, '2026-09', 100, price FROM article, warehouse;
INSERT INTO movement (sku, warehouse, period, units)
  SELECT sku, code, '2026-09', CASE sku WHEN 'BRG-0042' THEN -380 ELSE -90 END FROM article, warehouse;
