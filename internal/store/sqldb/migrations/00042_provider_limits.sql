-- Limits of the providers whose keys companies keep, and runs that wait for a limit
-- of a provider: model_waits has them too, with an endpoint that begins with limit:
-- and the tokens that their calls need.

-- +goose Up
ALTER TABLE llm_credentials ADD COLUMN max_concurrency BIGINT NOT NULL DEFAULT 0; -- 0: no limit
ALTER TABLE llm_credentials ADD COLUMN tokens_per_minute BIGINT NOT NULL DEFAULT 0;
ALTER TABLE model_waits ADD COLUMN tokens BIGINT NOT NULL DEFAULT 0;
CREATE INDEX model_waits_tenant ON model_waits (endpoint, tenant_id, run_id);

-- +goose Down
DROP INDEX model_waits_tenant;
ALTER TABLE model_waits DROP COLUMN tokens;
ALTER TABLE llm_credentials DROP COLUMN tokens_per_minute;
ALTER TABLE llm_credentials DROP COLUMN max_concurrency;
