-- +goose Up

-- Work that is in no commit yet, one tree for each run that goes on, so that it
-- outlives the machine it was made on.
CREATE TABLE unfinished (
    run_id TEXT NOT NULL PRIMARY KEY,
    tree   TEXT NOT NULL,
    data   BLOB NOT NULL
) STRICT;

-- +goose Down

DROP TABLE unfinished;
