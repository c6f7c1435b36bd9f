-- +goose Up

-- The node that works on a run, '' for any; and the nodes that share a database, of which a
-- file has none.
ALTER TABLE runs ADD COLUMN node TEXT NOT NULL DEFAULT '';

-- When a run ended, 0 before. No index has what changes with each step.
ALTER TABLE runs ADD COLUMN ended_at INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET ended_at = updated_at WHERE active = 0;
DROP INDEX runs_leased;
DROP INDEX runs_ended;
CREATE INDEX runs_ended ON runs (ended_at) WHERE active = 0;

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
DROP INDEX runs_ended;
ALTER TABLE runs DROP COLUMN ended_at;
CREATE INDEX runs_ended ON runs (updated_at) WHERE active = 0;
CREATE INDEX runs_leased ON runs (lease_owner) WHERE lease_owner <> '';
ALTER TABLE runs DROP COLUMN node;
