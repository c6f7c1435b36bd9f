-- +goose Up

-- Times are microseconds since 1970 in UTC; 0 stands for "not yet".

CREATE TABLE deliveries (
    guid            TEXT    NOT NULL PRIMARY KEY,
    event           TEXT    NOT NULL,
    action          TEXT    NOT NULL,
    installation_id INTEGER NOT NULL,
    repo_node       TEXT    NOT NULL,
    body            BLOB    NOT NULL,
    received_at     INTEGER NOT NULL,
    processed_at    INTEGER NOT NULL DEFAULT 0,
    outcome         TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX deliveries_unprocessed ON deliveries (received_at) WHERE processed_at = 0;

CREATE TABLE runs (
    id                  TEXT    NOT NULL PRIMARY KEY,
    repo_owner          TEXT    NOT NULL,
    repo_name           TEXT    NOT NULL,
    repo_node           TEXT    NOT NULL,
    installation_id     INTEGER NOT NULL,
    issue_number        INTEGER NOT NULL,
    issue_node          TEXT    NOT NULL,
    phase               TEXT    NOT NULL,
    -- 1 while the phase is one that takes further steps; kept beside the phase
    -- so that which phases are the last is said in one place, in Go.
    active              INTEGER NOT NULL CHECK (active IN (0, 1)),
    end_reason          TEXT    NOT NULL DEFAULT '',
    state               BLOB    NOT NULL,
    cancel_requested_at INTEGER NOT NULL DEFAULT 0,
    cancel_by           TEXT    NOT NULL DEFAULT '',
    lease_owner         TEXT    NOT NULL DEFAULT '',
    lease_until         INTEGER NOT NULL DEFAULT 0,
    generation          INTEGER NOT NULL DEFAULT 0,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX runs_one_active_per_issue ON runs (repo_node, issue_number) WHERE active = 1;
CREATE INDEX runs_by_issue ON runs (repo_node, issue_number, created_at);
CREATE INDEX runs_leased ON runs (lease_owner) WHERE lease_owner <> '';

CREATE TABLE effects (
    key        TEXT    NOT NULL PRIMARY KEY,
    run_id     TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    intent     BLOB    NOT NULL,
    status     TEXT    NOT NULL CHECK (status IN ('intended', 'done', 'failed')),
    result     BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    done_at    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX effects_by_run ON effects (run_id, created_at);

CREATE TABLE refusals (
    repo_node    TEXT    NOT NULL,
    issue_number INTEGER NOT NULL,
    person       TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    PRIMARY KEY (repo_node, issue_number, person)
) STRICT, WITHOUT ROWID;

-- +goose Down

DROP TABLE refusals;
DROP TABLE effects;
DROP TABLE runs;
DROP TABLE deliveries;
