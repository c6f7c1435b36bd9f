-- +goose Up

-- Whether the work that taught a lesson is on the default branch. Only then is the
-- lesson told to anybody.
ALTER TABLE lessons ADD COLUMN merged INTEGER NOT NULL DEFAULT 0 CHECK (merged IN (0, 1));

-- +goose Down

ALTER TABLE lessons DROP COLUMN merged;
