-- +goose Up

-- What the operator holds back until they say otherwise.
CREATE TABLE holds (
    name   TEXT    NOT NULL PRIMARY KEY,
    person TEXT    NOT NULL,
    since  INTEGER NOT NULL
) STRICT;

-- Who was allowed or refused to do what.
CREATE TABLE decisions (
    id           INTEGER PRIMARY KEY,
    at           INTEGER NOT NULL,
    repo         TEXT    NOT NULL,
    issue_number INTEGER NOT NULL,
    person       TEXT    NOT NULL,
    action       TEXT    NOT NULL,
    allowed      INTEGER NOT NULL CHECK (allowed IN (0, 1)),
    reason       TEXT    NOT NULL,
    -- The delivery that it was decided on, '' where an operator decided.
    delivery     TEXT    NOT NULL
) STRICT;

CREATE INDEX decisions_by_age ON decisions (at);

-- What stays of a run when the rest of it is removed.
CREATE TABLE past_runs (
    id           TEXT    NOT NULL PRIMARY KEY,
    repo_owner   TEXT    NOT NULL,
    repo_name    TEXT    NOT NULL,
    repo_node    TEXT    NOT NULL,
    issue_number INTEGER NOT NULL,
    end_reason   TEXT    NOT NULL,
    cost_usd     REAL    NOT NULL,
    iterations   INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    ended_at     INTEGER NOT NULL
) STRICT;

CREATE INDEX past_runs_by_repo ON past_runs (repo_node);

-- +goose Down

DROP TABLE past_runs;
DROP TABLE decisions;
DROP TABLE holds;
