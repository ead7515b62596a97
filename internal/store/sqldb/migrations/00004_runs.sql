-- +goose Up
CREATE TABLE runs (
    tenant_id       TEXT   NOT NULL,
    run_id          TEXT   NOT NULL,
    agent_id        TEXT   NOT NULL,
    agent_version   BIGINT NOT NULL,
    session_id      TEXT,
    team_run_id     TEXT,
    status          TEXT   NOT NULL,
    input           TEXT   NOT NULL,
    output          TEXT,
    metrics         TEXT   NOT NULL,
    error           TEXT,
    error_code      TEXT   NOT NULL,
    metadata        TEXT   NOT NULL,
    resource_limits TEXT   NOT NULL,
    options         TEXT   NOT NULL,
    pending         TEXT   NOT NULL,
    step_seq        BIGINT NOT NULL,
    event_seq       BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    started_at      BIGINT NOT NULL,
    completed_at    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, run_id)
) WITHOUT ROWID;
-- Run ids sort by time, so that every list is a walk along one of these.
CREATE INDEX runs_agent ON runs (tenant_id, agent_id, run_id);
CREATE INDEX runs_session ON runs (tenant_id, session_id, run_id) WHERE session_id IS NOT NULL;
CREATE INDEX runs_status ON runs (tenant_id, status, run_id);

CREATE TABLE run_steps (
    tenant_id    TEXT   NOT NULL,
    run_id       TEXT   NOT NULL,
    seq          BIGINT NOT NULL,
    step_id      TEXT   NOT NULL,
    type         TEXT   NOT NULL,
    status       TEXT   NOT NULL,
    started_at   BIGINT NOT NULL,
    completed_at BIGINT NOT NULL,
    duration_us  BIGINT NOT NULL,
    input        TEXT,
    output       TEXT,
    error        TEXT,
    metrics      TEXT,
    tool_calls   TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, run_id, seq)
) WITHOUT ROWID;

-- One row holds the events of one commit, or a draft of text that runs ahead
-- of its step's commit. What a step stores is not stored here again.
CREATE TABLE run_events (
    tenant_id TEXT   NOT NULL,
    run_id    TEXT   NOT NULL,
    last_seq  BIGINT NOT NULL,
    first_seq BIGINT NOT NULL,
    draft     BIGINT NOT NULL,
    body      TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, run_id, last_seq)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE run_events;
DROP TABLE run_steps;
DROP TABLE runs;
