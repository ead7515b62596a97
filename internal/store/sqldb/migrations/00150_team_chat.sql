-- The chat of teams: runs of threads, and those that have not ended.

-- +goose Up
ALTER TABLE team_runs ADD COLUMN thread_id TEXT NOT NULL DEFAULT ''; -- '': to all members
CREATE INDEX team_runs_thread ON team_runs (tenant_id, team_id, thread_id, team_run_id);
CREATE INDEX team_runs_open ON team_runs (tenant_id, team_id, completed_at, team_run_id);
CREATE INDEX team_runs_unfinished ON team_runs (tenant_id, completed_at);

-- +goose Down
DROP INDEX team_runs_unfinished;
DROP INDEX team_runs_open;
DROP INDEX team_runs_thread;
ALTER TABLE team_runs DROP COLUMN thread_id;
