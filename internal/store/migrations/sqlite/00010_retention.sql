-- +goose Up

-- What has to be known of a webhook when its body is gone: the issue that it gave a
-- label, the label, and when that was, in seconds since 1970 by GitHub's clock.
ALTER TABLE deliveries ADD COLUMN labelled TEXT NOT NULL DEFAULT '';
ALTER TABLE deliveries ADD COLUMN label TEXT NOT NULL DEFAULT '';
ALTER TABLE deliveries ADD COLUMN labelled_at INTEGER NOT NULL DEFAULT 0;

UPDATE deliveries SET
    labelled    = coalesce(json_extract(CAST(body AS TEXT), '$.issue.node_id'), ''),
    label       = coalesce(json_extract(CAST(body AS TEXT), '$.label.name'), ''),
    labelled_at = coalesce(unixepoch(json_extract(CAST(body AS TEXT), '$.issue.updated_at')), 0)
WHERE event = 'issues' AND action = 'labeled' AND json_valid(CAST(body AS TEXT));

CREATE INDEX deliveries_labelled ON deliveries (labelled) WHERE labelled <> '';
-- What retention looks for.
CREATE INDEX deliveries_with_body ON deliveries (processed_at) WHERE length(body) > 0 AND processed_at > 0;
CREATE INDEX deliveries_by_age ON deliveries (received_at) WHERE processed_at > 0 AND labelled = '';
CREATE INDEX runs_ended ON runs (updated_at) WHERE active = 0;

-- +goose Down

DROP INDEX runs_ended;
DROP INDEX deliveries_by_age;
DROP INDEX deliveries_with_body;
DROP INDEX deliveries_labelled;
ALTER TABLE deliveries DROP COLUMN labelled_at;
ALTER TABLE deliveries DROP COLUMN label;
ALTER TABLE deliveries DROP COLUMN labelled;
