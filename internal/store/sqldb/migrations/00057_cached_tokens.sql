-- Usage counts the input tokens that providers had in a cache, or stored in one.

-- +goose Up
ALTER TABLE usage_counters ADD COLUMN cached_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_counters ADD COLUMN cache_write_tokens BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE usage_counters DROP COLUMN cache_write_tokens;
ALTER TABLE usage_counters DROP COLUMN cached_tokens;
