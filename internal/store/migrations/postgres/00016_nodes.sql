-- +goose Up

-- The node that works on a run, '' for any: trees and processes of a run are on its machine.
ALTER TABLE runs ADD COLUMN node TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE runs SET node = coalesce((SELECT name FROM node), '') WHERE active = 1;
CREATE INDEX runs_of_node ON runs (node) WHERE active = 1;
DROP TABLE node;

-- No index has what changes with each step, so that a step writes no index (a "HOT" update), however
-- many runs there are.
ALTER TABLE runs ADD COLUMN ended_at BIGINT NOT NULL DEFAULT 0;
UPDATE runs SET ended_at = updated_at WHERE active = 0;
DROP INDEX runs_leased;
DROP INDEX runs_ended;
CREATE INDEX runs_ended ON runs (ended_at) WHERE active = 0;

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

-- The timeline of PostgreSQL's log that the rows are known to go on from: another one began with a
-- standby that took over, and may lack what was committed last.
CREATE TABLE timeline (
    one  BOOLEAN NOT NULL PRIMARY KEY DEFAULT true CHECK (one),
    name TEXT    COLLATE "C" NOT NULL
);

-- The oldest version of these tables whose programs may work on them beside newer ones.
CREATE TABLE compatible (
    one    BOOLEAN NOT NULL PRIMARY KEY DEFAULT true CHECK (one),
    oldest BIGINT  NOT NULL
);
INSERT INTO compatible (oldest) VALUES (16);
ALTER TABLE processes ADD COLUMN tables BIGINT NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE processes DROP COLUMN tables;
DROP TABLE compatible;
DROP TABLE timeline;

CREATE TABLE node (
    one  BOOLEAN NOT NULL PRIMARY KEY DEFAULT true CHECK (one),
    name TEXT    COLLATE "C" NOT NULL
);
INSERT INTO node (name) SELECT name FROM nodes ORDER BY seen_at DESC LIMIT 1;
DROP TABLE nodes;
DROP INDEX runs_ended;
ALTER TABLE runs DROP COLUMN ended_at;
CREATE INDEX runs_ended ON runs (updated_at) WHERE active = 0;
CREATE INDEX runs_leased ON runs (lease_owner) WHERE lease_owner <> '';
ALTER TABLE runs DROP COLUMN node;
