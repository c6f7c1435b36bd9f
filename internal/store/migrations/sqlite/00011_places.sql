-- +goose Up

-- Processes of runs that were let in, and those that wait for it: one row for each run
-- that has, or wants, an agent or a check at work. It goes with the state that has seen
-- the process end.
CREATE TABLE places (
    run_id     TEXT    NOT NULL PRIMARY KEY,
    process    TEXT    NOT NULL,
    repo       TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    person     TEXT    NOT NULL,
    answer     INTEGER NOT NULL,
    came_at    INTEGER NOT NULL,
    asked_at   INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    granted_at INTEGER NOT NULL DEFAULT 0,
    line       INTEGER NOT NULL DEFAULT 0,
    why        TEXT    NOT NULL DEFAULT ''
) STRICT;

-- When an owner or a repository last had a turn.
CREATE TABLE turns (
    name TEXT    NOT NULL PRIMARY KEY,
    at   INTEGER NOT NULL
) STRICT;

-- +goose Down

DROP TABLE turns;
DROP TABLE places;
