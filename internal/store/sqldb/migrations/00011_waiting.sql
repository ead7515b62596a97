-- What runs wait for; see run.Wait and run.Approval.

-- +goose Up
ALTER TABLE runs ADD COLUMN waiting TEXT NOT NULL DEFAULT '';     -- run.Wait
ALTER TABLE runs ADD COLUMN auth_server TEXT;                     -- the server that the run waits for authorization of
ALTER TABLE runs ADD COLUMN pausing BOOLEAN NOT NULL DEFAULT FALSE; -- the worker is to pause it
CREATE INDEX runs_auth ON runs (tenant_id, auth_server, run_id) WHERE auth_server IS NOT NULL;

CREATE TABLE approvals (
    tenant_id      TEXT   NOT NULL,
    approval_id    TEXT   NOT NULL,
    run_id         TEXT   NOT NULL,
    agent_id       TEXT   NOT NULL,
    session_id     TEXT,
    tool_call_id   TEXT   NOT NULL,
    tool_name      TEXT   NOT NULL,
    arguments      TEXT   NOT NULL,
    arguments_hash TEXT   NOT NULL,
    status         TEXT   NOT NULL,
    requested_at   BIGINT NOT NULL,
    expires_at     BIGINT NOT NULL,
    decided_at     BIGINT NOT NULL, -- 0: not yet
    decided_by     TEXT   NOT NULL,
    reason         TEXT   NOT NULL,
    response       TEXT   NOT NULL,
    edited         TEXT,
    PRIMARY KEY (tenant_id, approval_id)
) WITHOUT ROWID;
CREATE INDEX approvals_run ON approvals (tenant_id, run_id, approval_id);
CREATE INDEX approvals_status ON approvals (tenant_id, status, approval_id);

-- +goose Down
DROP TABLE approvals;
DROP INDEX runs_auth;
ALTER TABLE runs DROP COLUMN pausing;
ALTER TABLE runs DROP COLUMN auth_server;
ALTER TABLE runs DROP COLUMN waiting;
