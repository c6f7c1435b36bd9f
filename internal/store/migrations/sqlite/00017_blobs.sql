-- +goose Up

-- Files that outlive the machine they were written on. What is written is not ready, and
-- nobody sees it, until all of its chunks are there.
CREATE TABLE blobs (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    name  TEXT    NOT NULL,
    ready INTEGER NOT NULL CHECK (ready IN (0, 1)),
    size  INTEGER NOT NULL,
    at    INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX blobs_by_name ON blobs (name) WHERE ready = 1;
CREATE INDEX blobs_unready ON blobs (at) WHERE ready = 0;

CREATE TABLE blob_chunks (
    blob INTEGER NOT NULL REFERENCES blobs (id) ON DELETE CASCADE,
    n    INTEGER NOT NULL,
    data BLOB    NOT NULL,
    PRIMARY KEY (blob, n)
) STRICT;

-- +goose Down

DROP TABLE blob_chunks;
DROP TABLE blobs;
