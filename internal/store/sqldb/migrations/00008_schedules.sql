-- What schedules have come to; see package schedule for what the columns mean.
-- What is configured is the agent's.

-- +goose Up
CREATE TABLE schedules (
    tenant_id       TEXT   NOT NULL,
    agent_id        TEXT   NOT NULL,
    config          TEXT   NOT NULL, -- that the state is of, canonical JSON
    status          TEXT   NOT NULL,
    problem         TEXT   NOT NULL,
    next_run_at     BIGINT NOT NULL, -- 0: none
    last_fired_at   BIGINT NOT NULL, -- 0: never
    last_skipped_at BIGINT NOT NULL, -- 0: never
    skip_reason     TEXT   NOT NULL,
    failures        BIGINT NOT NULL,
    revision        BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id)
) WITHOUT ROWID;

-- The runs that schedules made and that have not ended.
CREATE TABLE schedule_runs (
    tenant_id TEXT   NOT NULL,
    run_id    TEXT   NOT NULL,
    agent_id  TEXT   NOT NULL,
    fire_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, run_id)
) WITHOUT ROWID;
CREATE INDEX schedule_runs_agent ON schedule_runs (tenant_id, agent_id, run_id);

-- +goose Down
DROP TABLE schedule_runs;
DROP TABLE schedules;
