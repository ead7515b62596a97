-- Tasks of teams that agents of other systems do; see package errand.

-- +goose Up
CREATE TABLE a2a_errands (
    tenant_id   TEXT   NOT NULL,
    task_id     TEXT   NOT NULL, -- of the team's task, in the place of a run's
    team_run_id TEXT   NOT NULL,
    cancel      BIGINT NOT NULL, -- 1: its end was requested
    body        TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
);
CREATE INDEX a2a_errands_team_run ON a2a_errands (tenant_id, team_run_id);

-- +goose Down
DROP TABLE a2a_errands;
