-- The untrusted sources that the run had read which wrote a memory entry.

-- +goose Up
ALTER TABLE memory_entries ADD COLUMN sources TEXT NOT NULL DEFAULT ''; -- a JSON array; empty: none

-- +goose Down
ALTER TABLE memory_entries DROP COLUMN sources;
