-- +goose Up

-- What requests to models cost. Money is in billionths of a dollar.

CREATE TABLE spend_starts (
    name   TEXT    NOT NULL PRIMARY KEY,
    -- What the start is charged to, and the limits there, as JSON.
    scopes BLOB    NOT NULL,
    ended  INTEGER NOT NULL DEFAULT 0 CHECK (ended IN (0, 1))
) STRICT;

CREATE TABLE spend_requests (
    id      INTEGER PRIMARY KEY,
    start   TEXT    NOT NULL REFERENCES spend_starts (name),
    model   TEXT    NOT NULL,
    -- What was reserved, and once it is settled what it did cost.
    cost    INTEGER NOT NULL,
    settled INTEGER NOT NULL DEFAULT 0 CHECK (settled IN (0, 1)),
    input            INTEGER NOT NULL DEFAULT 0,
    output           INTEGER NOT NULL DEFAULT 0,
    cache_read       INTEGER NOT NULL DEFAULT 0,
    cache_write      INTEGER NOT NULL DEFAULT 0,
    cache_write_long INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX spend_requests_by_start ON spend_requests (start);

-- The sum of the costs above by what they are charged to.
CREATE TABLE spend_totals (
    scope TEXT    NOT NULL PRIMARY KEY,
    cost  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE spend_refusals (
    id     INTEGER PRIMARY KEY,
    start  TEXT    NOT NULL REFERENCES spend_starts (name),
    reason TEXT    NOT NULL,
    budget INTEGER NOT NULL CHECK (budget IN (0, 1)),
    UNIQUE (start, reason, budget)
) STRICT;

-- +goose Down

DROP TABLE spend_refusals;
DROP TABLE spend_totals;
DROP TABLE spend_requests;
DROP TABLE spend_starts;
