-- +goose Up

-- When the database was restored from a backup. What happened after the backup is not
-- in it, so effects of older runs are looked for before they are repeated.
CREATE TABLE restores (
    at INTEGER NOT NULL
) STRICT;

-- +goose Down

DROP TABLE restores;
