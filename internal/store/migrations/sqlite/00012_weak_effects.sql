-- +goose Up

-- Effects that nothing waits for are repeated until they succeed: next_try is when, 0
-- where nobody repeats the effect but who wants it; tries counts what has failed.
ALTER TABLE effects ADD COLUMN next_try INTEGER NOT NULL DEFAULT 0;
ALTER TABLE effects ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;

CREATE INDEX effects_due ON effects (kind, next_try) WHERE status = 'intended' AND next_try > 0;

-- +goose Down

DROP INDEX effects_due;
ALTER TABLE effects DROP COLUMN tries;
ALTER TABLE effects DROP COLUMN next_try;
