-- +goose Up
-- Where a passage stands in its document, so that it can be quoted.
ALTER TABLE passages ADD COLUMN start_at BIGINT NOT NULL DEFAULT -1; -- characters before it; -1: not known
ALTER TABLE passages ADD COLUMN page BIGINT NOT NULL DEFAULT 0; -- from 1; 0: its document has no pages
DROP INDEX passages_source;
CREATE INDEX passages_source ON passages (tenant_id, collection_id, source_id, position) WHERE source_id <> '';

-- +goose Down
DROP INDEX passages_source;
CREATE INDEX passages_source ON passages (tenant_id, collection_id, source_id, vector_model) WHERE source_id <> '';
ALTER TABLE passages DROP COLUMN page;
ALTER TABLE passages DROP COLUMN start_at;
