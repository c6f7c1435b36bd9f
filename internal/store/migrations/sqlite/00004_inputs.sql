-- +goose Up

-- What people say to runs, as it was when they said it, until a run has taken
-- it in. Rows outlive runs: an issue has them, not a run.
CREATE TABLE inputs (
    id           INTEGER PRIMARY KEY,
    repo_node    TEXT    NOT NULL,
    issue_number INTEGER NOT NULL,
    kind         TEXT    NOT NULL,
    -- What it came from, "comment:123"; nothing is taken in twice.
    source       TEXT    NOT NULL,
    -- GitHub's id of that, which grows with time.
    source_id    INTEGER NOT NULL,
    url          TEXT    NOT NULL,
    author_id    INTEGER NOT NULL,
    author       TEXT    NOT NULL,
    -- The author's role when the event was worked; '' is nobody's.
    role         TEXT    NOT NULL,
    text         TEXT    NOT NULL,
    text_sha256  TEXT    NOT NULL,
    detail       BLOB    NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('pending', 'done', 'refused', 'withdrawn')),
    outcome      TEXT    NOT NULL DEFAULT '',
    run_id       TEXT    NOT NULL DEFAULT '',
    received_at  INTEGER NOT NULL,
    settled_at   INTEGER NOT NULL DEFAULT 0,
    UNIQUE (repo_node, source)
) STRICT;

CREATE INDEX inputs_pending ON inputs (repo_node, issue_number, id) WHERE state = 'pending';
CREATE INDEX inputs_by_issue ON inputs (repo_node, issue_number, received_at);
CREATE INDEX inputs_by_author ON inputs (author_id, received_at);

-- The pull request a run works on, so that what is said there finds the run.
ALTER TABLE runs ADD COLUMN pull_number INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_by_pull ON runs (repo_node, pull_number, created_at) WHERE pull_number > 0;

-- +goose Down

DROP INDEX runs_by_pull;
ALTER TABLE runs DROP COLUMN pull_number;
DROP TABLE inputs;
