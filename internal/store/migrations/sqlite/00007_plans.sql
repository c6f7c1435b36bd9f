-- +goose Up

-- A run without GitHub works a plan, not an issue: its issue_number is 0, and its
-- issue_node is the key of the plan. A plan has at most one active run, too.
DROP INDEX runs_one_active_per_issue;
CREATE UNIQUE INDEX runs_one_active_per_issue
    ON runs (repo_node, issue_number, iif(issue_number = 0, issue_node, '')) WHERE active = 1;

-- +goose Down

DROP INDEX runs_one_active_per_issue;
CREATE UNIQUE INDEX runs_one_active_per_issue ON runs (repo_node, issue_number) WHERE active = 1;
