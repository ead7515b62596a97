-- The entry that took the place of another, which it contradicts.

-- +goose Up
ALTER TABLE memory_entries ADD COLUMN superseded_by TEXT NOT NULL DEFAULT ''; -- empty: none
CREATE INDEX memory_entries_superseded ON memory_entries (tenant_id, agent_id, superseded_by) WHERE superseded_by <> '';

-- +goose Down
DROP INDEX memory_entries_superseded;
ALTER TABLE memory_entries DROP COLUMN superseded_by;
