-- What a page or a turn of a long conversation needs to know of the turns that it
-- does not read: how many messages the API shows of them (-1: not counted), and
-- which of them have a summary.

-- +goose Up
ALTER TABLE session_runs ADD COLUMN entries BIGINT NOT NULL DEFAULT -1;
ALTER TABLE session_runs ADD COLUMN summarized BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE session_runs SET summarized = TRUE WHERE finished AND EXISTS (
    SELECT 1 FROM run_steps s WHERE s.tenant_id = session_runs.tenant_id AND s.run_id = session_runs.run_id
        AND s.type = 'compaction' AND s.status = 'completed'
);
CREATE INDEX session_runs_branch ON session_runs (tenant_id, session_id, branch_id, turn);
CREATE INDEX session_runs_summarized ON session_runs (tenant_id, session_id, branch_id, turn) WHERE summarized;

-- +goose Down
DROP INDEX session_runs_summarized;
DROP INDEX session_runs_branch;
ALTER TABLE session_runs DROP COLUMN summarized;
ALTER TABLE session_runs DROP COLUMN entries;
