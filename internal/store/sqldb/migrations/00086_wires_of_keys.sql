-- The wire of a company's own provider, and what its wire needs beside the key, which is
-- no secret.

-- +goose Up
ALTER TABLE llm_credentials ADD COLUMN wire TEXT NOT NULL DEFAULT ''; -- '': that of the endpoint
ALTER TABLE llm_credentials ADD COLUMN access TEXT NOT NULL DEFAULT ''; -- JSON; '': nothing

-- +goose Down
ALTER TABLE llm_credentials DROP COLUMN access;
ALTER TABLE llm_credentials DROP COLUMN wire;
