-- Programs that sign a person in get a key that acts as the session.

-- +goose Up
ALTER TABLE browser_sessions ADD COLUMN key_prefix TEXT NOT NULL DEFAULT ''; -- '': it has none
ALTER TABLE browser_sessions ADD COLUMN key_hash BYTEA; -- SHA-256
CREATE UNIQUE INDEX browser_sessions_key ON browser_sessions (key_prefix) WHERE key_prefix <> '';

-- +goose Down
DROP INDEX browser_sessions_key;
ALTER TABLE browser_sessions DROP COLUMN key_hash;
ALTER TABLE browser_sessions DROP COLUMN key_prefix;
