-- +goose Up

-- A run that works tasks side by side has several processes at work, each with a place.
CREATE TABLE places_new (
    run_id     TEXT    NOT NULL,
    process    TEXT    NOT NULL PRIMARY KEY,
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
INSERT INTO places_new SELECT * FROM places;
DROP TABLE places;
ALTER TABLE places_new RENAME TO places;
CREATE INDEX places_run ON places (run_id);

-- +goose Down

CREATE TABLE places_old (
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
INSERT OR IGNORE INTO places_old SELECT * FROM places ORDER BY granted_at DESC;
DROP TABLE places;
ALTER TABLE places_old RENAME TO places;
