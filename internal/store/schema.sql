-- Times are microseconds since 1970 in UTC; 0 stands for "not yet".
--
-- Whoever changes a table counts schemaVersion up.

CREATE TABLE deliveries (
    guid            TEXT    NOT NULL PRIMARY KEY,
    event           TEXT    NOT NULL,
    action          TEXT    NOT NULL,
    installation_id INTEGER NOT NULL,
    repo_node       TEXT    NOT NULL,
    body            BLOB    NOT NULL,
    -- The digest of a body that counts once, whatever GUID it comes under: GitHub signs
    -- the body, and not the GUID. Empty where bodies may honestly repeat.
    digest          BLOB    NOT NULL,
    received_at     INTEGER NOT NULL,
    processed_at    INTEGER NOT NULL DEFAULT 0,
    outcome         TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX deliveries_unprocessed ON deliveries (received_at) WHERE processed_at = 0;
CREATE UNIQUE INDEX deliveries_once ON deliveries (digest) WHERE length(digest) > 0;
-- What retention looks for.
CREATE INDEX deliveries_with_body ON deliveries (processed_at) WHERE length(body) > 0 AND processed_at > 0;
CREATE INDEX deliveries_by_age ON deliveries (received_at) WHERE processed_at > 0;

CREATE TABLE runs (
    id                  TEXT    NOT NULL PRIMARY KEY,
    repo_owner          TEXT    NOT NULL,
    repo_name           TEXT    NOT NULL,
    repo_node           TEXT    NOT NULL,
    installation_id     INTEGER NOT NULL,
    -- A run without GitHub works a plan, not an issue: its issue_number is 0, and its
    -- issue_node is the key of the plan.
    issue_number        INTEGER NOT NULL,
    issue_node          TEXT    NOT NULL,
    -- The pull request that the run works on, so that what is said there finds the run.
    pull_number         INTEGER NOT NULL,
    phase               TEXT    NOT NULL,
    -- 1 while the phase is one that takes further steps; kept beside the phase
    -- so that which phases are the last is said in one place, in Go.
    active              INTEGER NOT NULL CHECK (active IN (0, 1)),
    end_reason          TEXT    NOT NULL,
    state               BLOB    NOT NULL,
    cancel_requested_at INTEGER NOT NULL DEFAULT 0,
    cancel_by           TEXT    NOT NULL DEFAULT '',
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    -- No index has what changes with each step, which updated_at does.
    ended_at            INTEGER NOT NULL DEFAULT 0
) STRICT;

-- An issue, and a plan, has at most one active run.
CREATE UNIQUE INDEX runs_one_active_per_issue
    ON runs (repo_node, issue_number, iif(issue_number = 0, issue_node, '')) WHERE active = 1;
CREATE INDEX runs_by_issue ON runs (repo_node, issue_number, created_at);
CREATE INDEX runs_by_pull ON runs (repo_node, pull_number, created_at) WHERE pull_number > 0;
CREATE INDEX runs_ended ON runs (ended_at) WHERE active = 0;

CREATE TABLE effects (
    key        TEXT    NOT NULL PRIMARY KEY,
    run_id     TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    intent     BLOB    NOT NULL,
    status     TEXT    NOT NULL CHECK (status IN ('intended', 'done')),
    result     BLOB    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX effects_by_run ON effects (run_id, created_at);
-- What retention looks for.
CREATE INDEX effects_of_no_run ON effects (created_at) WHERE run_id = '';

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
    author_id    INTEGER NOT NULL,
    author       TEXT    NOT NULL,
    -- The author's role when the event was worked; '' is nobody's.
    role         TEXT    NOT NULL,
    text         TEXT    NOT NULL,
    detail       BLOB    NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('pending', 'done', 'refused', 'withdrawn')),
    outcome      TEXT    NOT NULL,
    run_id       TEXT    NOT NULL,
    received_at  INTEGER NOT NULL,
    UNIQUE (repo_node, source)
) STRICT;

CREATE INDEX inputs_pending ON inputs (repo_node, issue_number, id) WHERE state = 'pending';
CREATE INDEX inputs_by_issue ON inputs (repo_node, issue_number, received_at);
CREATE INDEX inputs_of_no_run ON inputs (received_at) WHERE run_id = '';
CREATE INDEX inputs_by_author ON inputs (author_id, received_at);

-- What requests to models cost. Money is in billionths of a dollar.
CREATE TABLE spend_starts (
    name   TEXT    NOT NULL PRIMARY KEY,
    -- What the start is charged to, and the limits there, as JSON.
    scopes BLOB    NOT NULL,
    -- The hosts that the start may reach, as JSON.
    hosts  BLOB    NOT NULL,
    ended  INTEGER NOT NULL DEFAULT 0 CHECK (ended IN (0, 1))
) STRICT;

-- What starts used.
CREATE TABLE spend_models (
    start    TEXT    NOT NULL REFERENCES spend_starts (name),
    model    TEXT    NOT NULL,
    requests INTEGER NOT NULL,
    cost     INTEGER NOT NULL,
    input            INTEGER NOT NULL,
    output           INTEGER NOT NULL,
    cache_read       INTEGER NOT NULL,
    cache_write      INTEGER NOT NULL,
    cache_write_long INTEGER NOT NULL,
    PRIMARY KEY (start, model)
) STRICT, WITHOUT ROWID;

-- The sum of the costs above, by what they are charged to.
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

-- The hosts that starts reached or were kept from.
CREATE TABLE spend_hosts (
    id       INTEGER PRIMARY KEY,
    start    TEXT    NOT NULL REFERENCES spend_starts (name),
    host     TEXT    NOT NULL,
    -- Why the start was kept from it; '' where it was not.
    blocked  TEXT    NOT NULL,
    count    INTEGER NOT NULL,
    -- Bytes.
    sent     INTEGER NOT NULL,
    received INTEGER NOT NULL,
    UNIQUE (start, host, blocked)
) STRICT;

-- One row, written for no other reason than to see whether it reaches the disk.
CREATE TABLE probe (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    count INTEGER NOT NULL
) STRICT;

INSERT INTO probe VALUES (1, 0);
