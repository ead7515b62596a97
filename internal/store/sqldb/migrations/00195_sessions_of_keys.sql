-- A browser session that was opened with a key: it may do what the key may, and ends
-- with it.

-- +goose Up
ALTER TABLE browser_sessions ADD COLUMN of_key_id TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE browser_sessions DROP COLUMN of_key_id;
