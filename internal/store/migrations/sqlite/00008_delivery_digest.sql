-- +goose Up

-- The digest of a body that counts once, whatever GUID it comes under: GitHub signs
-- the body, and not the GUID. Empty where bodies may honestly repeat.
ALTER TABLE deliveries ADD COLUMN digest BLOB NOT NULL DEFAULT x'';
CREATE UNIQUE INDEX deliveries_once ON deliveries (digest) WHERE length(digest) > 0;

-- +goose Down

DROP INDEX deliveries_once;
ALTER TABLE deliveries DROP COLUMN digest;
