-- +goose Up

-- What tasks taught, by repository, and the words a lesson is found by.
CREATE TABLE lessons (
    id        INTEGER PRIMARY KEY,
    repo_node TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    lesson    BLOB    NOT NULL,
    UNIQUE (repo_node, key)
) STRICT;

CREATE VIRTUAL TABLE lessons_words USING fts5 (words, content = '', contentless_delete = 1);

-- +goose Down

DROP TABLE lessons_words;
DROP TABLE lessons;
