-- Runs of teams and what their members do in them; see package teamrun.

-- +goose Up
CREATE TABLE team_runs (
    tenant_id    TEXT   NOT NULL,
    team_run_id  TEXT   NOT NULL,
    team_id      TEXT   NOT NULL,
    status       TEXT   NOT NULL,
    spec         TEXT   NOT NULL, -- the team, as it was when the run began
    message      TEXT   NOT NULL,
    metadata     TEXT   NOT NULL,
    key_id       TEXT   NOT NULL, -- that started it; '': none
    user_id      TEXT   NOT NULL, -- who started it; '': none
    output       TEXT   NOT NULL,
    error        TEXT   NOT NULL,
    cancel       BIGINT NOT NULL, -- 1: a caller requested its end
    event_seq    BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    completed_at BIGINT NOT NULL, -- 0: it has not ended
    PRIMARY KEY (tenant_id, team_run_id)
);
CREATE INDEX team_runs_team ON team_runs (tenant_id, team_id, team_run_id);

CREATE TABLE team_tasks (
    tenant_id   TEXT   NOT NULL,
    team_run_id TEXT   NOT NULL,
    seq         BIGINT NOT NULL,
    ended       BIGINT NOT NULL, -- 1: its run has ended
    body        TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, team_run_id, seq)
);

-- +goose Down
DROP TABLE team_tasks;
DROP TABLE team_runs;
