-- +goose Up

-- The hosts that a start may reach, as JSON.
ALTER TABLE spend_starts ADD COLUMN hosts BLOB NOT NULL DEFAULT x'6e756c6c';

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

-- +goose Down

DROP TABLE spend_hosts;
ALTER TABLE spend_starts DROP COLUMN hosts;
