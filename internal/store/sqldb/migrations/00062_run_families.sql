-- Who started a run, and the family of runs that it belongs to; see package run.

-- +goose Up
ALTER TABLE runs ADD COLUMN started_by TEXT NOT NULL DEFAULT ''; -- "type:id" of a run.Initiator; '' of runs from before
ALTER TABLE runs ADD COLUMN parent_step_id TEXT;                 -- the step of the parent whose call started the run
ALTER TABLE runs ADD COLUMN root_run_id TEXT;                    -- the eldest of the family; NULL for itself
CREATE INDEX runs_started_by ON runs (tenant_id, started_by, run_id);
CREATE INDEX runs_root ON runs (tenant_id, root_run_id, run_id) WHERE root_run_id IS NOT NULL;

-- +goose Down
DROP INDEX runs_root;
DROP INDEX runs_started_by;
ALTER TABLE runs DROP COLUMN root_run_id;
ALTER TABLE runs DROP COLUMN parent_step_id;
ALTER TABLE runs DROP COLUMN started_by;
