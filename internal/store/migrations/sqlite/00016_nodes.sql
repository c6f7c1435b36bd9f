-- +goose Up

-- The node that works on a run, '' for any; and the nodes that share a database, of which a
-- file has none.
ALTER TABLE runs ADD COLUMN node TEXT NOT NULL DEFAULT '';

CREATE TABLE nodes (
    name       TEXT    NOT NULL PRIMARY KEY,
    version    TEXT    NOT NULL,
    agents     INTEGER NOT NULL,
    draining   INTEGER NOT NULL DEFAULT 0 CHECK (draining IN (0, 1)),
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL
) STRICT;

-- +goose Down

DROP TABLE nodes;
ALTER TABLE runs DROP COLUMN node;
