CREATE TABLE purchase_order (
  number     TEXT PRIMARY KEY,
  supplier   TEXT NOT NULL,
  warehouse  TEXT NOT NULL,
  status     TEXT NOT NULL CHECK (status IN ('draft', 'confirmed')),
  ready_on   TEXT NOT NULL, -- the day from which the goods can be delivered
  -- The newest task that works on a delivery slot for the order. A task that
  -- waits outlives the process that began it, so its ids are kept here.
  task_id    TEXT,
  context_id TEXT,
  task_state TEXT
) STRICT;

CREATE TABLE dock (
  warehouse TEXT    NOT NULL,
  number    INTEGER NOT NULL,
  tail_lift INTEGER NOT NULL, -- whether trucks with a tail lift can unload there
  PRIMARY KEY (warehouse, number)
) STRICT;

-- The hours at which a warehouse is open for deliveries.
CREATE TABLE slot (
  warehouse TEXT NOT NULL,
  day       TEXT NOT NULL, -- 2026-09-11
  hours     TEXT NOT NULL, -- 08:00-10:00
  PRIMARY KEY (warehouse, day, hours)
) STRICT;

CREATE TABLE booking (
  id             INTEGER PRIMARY KEY,
  warehouse      TEXT    NOT NULL,
  dock           INTEGER NOT NULL,
  day            TEXT    NOT NULL,
  hours          TEXT    NOT NULL,
  tail_lift      INTEGER NOT NULL,
  purchase_order TEXT    UNIQUE REFERENCES purchase_order (number), -- null: booked by telephone
  task_id        TEXT    UNIQUE,
  UNIQUE (warehouse, dock, day, hours), -- nobody books a dock twice
  FOREIGN KEY (warehouse, dock) REFERENCES dock (warehouse, number),
  FOREIGN KEY (warehouse, day, hours) REFERENCES slot (warehouse, day, hours)
) STRICT;

INSERT INTO purchase_order (number, supplier, warehouse, status, ready_on) VALUES
  ('PO-2026-0184', 'PT Baja Utama',    'Semarang', 'confirmed', '2026-09-10'),
  ('PO-2026-0185', 'CV Kemasan Jaya',  'Semarang', 'confirmed', '2026-09-11'),
  ('PO-2026-0186', 'PT Kaca Sejahtera', 'Semarang', 'draft',    '2026-09-12'),
  ('PO-2026-0187', 'PT Baja Utama',    'Surabaya', 'confirmed', '2026-09-14');

INSERT INTO dock (warehouse, number, tail_lift) VALUES
  ('Semarang', 1, 1), ('Semarang', 2, 1), ('Semarang', 3, 0),
  ('Surabaya', 1, 1);

INSERT INTO slot (warehouse, day, hours)
  SELECT warehouse, day, hours
  FROM (SELECT 'Semarang' AS warehouse UNION SELECT 'Surabaya'),
       (SELECT '2026-09-10' AS day UNION SELECT '2026-09-11' UNION SELECT '2026-09-14' UNION SELECT '2026-09-15'),
       (SELECT '08:00-10:00' AS hours UNION SELECT '10:00-12:00' UNION SELECT '13:00-15:00');

-- 10 September is full at Semarang, and on the 11th dock 1 is taken.
INSERT INTO booking (warehouse, dock, day, hours, tail_lift)
  SELECT slot.warehouse, dock.number, slot.day, slot.hours, 0
  FROM slot JOIN dock ON dock.warehouse = slot.warehouse
  WHERE slot.warehouse = 'Semarang' AND (slot.day = '2026-09-10' OR slot.day = '2026-09-11' AND dock.number = 1);
