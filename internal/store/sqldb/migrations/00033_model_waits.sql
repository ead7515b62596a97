-- Runs that wait for a model, so that they are woken when it answers again; see
-- run.ModelWait. The wait itself is in runs.waiting.

-- +goose Up
CREATE TABLE model_waits (
    tenant_id TEXT NOT NULL,
    run_id    TEXT NOT NULL,
    endpoint  TEXT NOT NULL, -- a hash of the address, the model and the key
    PRIMARY KEY (tenant_id, run_id)
) WITHOUT ROWID;
CREATE INDEX model_waits_endpoint ON model_waits (endpoint, run_id, tenant_id);

ALTER TABLE run_steps ADD COLUMN attempts TEXT; -- JSON: attempts that failed before the result

-- +goose Down
ALTER TABLE run_steps DROP COLUMN attempts;
DROP TABLE model_waits;
