-- +goose Up

-- The node that works on a run, '' for any: trees and processes of a run are on its machine.
ALTER TABLE runs ADD COLUMN node TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE runs SET node = coalesce((SELECT name FROM node), '') WHERE active = 1;
CREATE INDEX runs_of_node ON runs (node) WHERE active = 1;
DROP TABLE node;

-- The nodes that share this database. A node is a data directory. agents is how many agents and
-- checks it takes at once.
CREATE TABLE nodes (
    name       TEXT        COLLATE "C" NOT NULL PRIMARY KEY,
    version    TEXT        COLLATE "C" NOT NULL,
    agents     BIGINT      NOT NULL,
    draining   BIGINT      NOT NULL DEFAULT 0 CHECK (draining IN (0, 1)),
    started_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    seen_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);

-- +goose Down

CREATE TABLE node (
    one  BOOLEAN NOT NULL PRIMARY KEY DEFAULT true CHECK (one),
    name TEXT    COLLATE "C" NOT NULL
);
INSERT INTO node (name) SELECT name FROM nodes ORDER BY seen_at DESC LIMIT 1;
DROP TABLE nodes;
ALTER TABLE runs DROP COLUMN node;
