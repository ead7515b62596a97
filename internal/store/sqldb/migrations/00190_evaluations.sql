-- Evaluations of agents: the cases of datasets, evaluations, and the results of their cases.

-- +goose Up
CREATE TABLE eval_cases (
    tenant_id  TEXT   NOT NULL,
    dataset_id TEXT   NOT NULL,
    block      BIGINT NOT NULL, -- position of the first of up to 100 cases, by 100
    body       TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, dataset_id, block)
);

CREATE TABLE evaluations (
    tenant_id     TEXT   NOT NULL,
    eval_run_id   TEXT   NOT NULL,
    agent_id      TEXT   NOT NULL,
    dataset_id    TEXT   NOT NULL,
    experiment_id TEXT   NOT NULL, -- '': none
    version       BIGINT NOT NULL,
    status        TEXT   NOT NULL,
    spec          TEXT   NOT NULL,
    total         BIGINT NOT NULL,
    next          BIGINT NOT NULL,
    tally         TEXT   NOT NULL,
    summary       TEXT   NOT NULL, -- '': it has not ended
    error         TEXT   NOT NULL,
    cancel        BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    completed_at  BIGINT NOT NULL, -- 0: it has not ended
    PRIMARY KEY (tenant_id, eval_run_id)
);
CREATE INDEX evaluations_agent ON evaluations (tenant_id, agent_id, eval_run_id);
CREATE INDEX evaluations_dataset ON evaluations (tenant_id, dataset_id, eval_run_id);
CREATE INDEX evaluations_experiment ON evaluations (tenant_id, experiment_id, eval_run_id);
CREATE INDEX evaluations_open ON evaluations (tenant_id, completed_at);

CREATE TABLE evaluation_results (
    tenant_id   TEXT   NOT NULL,
    eval_run_id TEXT   NOT NULL,
    seq         BIGINT NOT NULL,
    ended       BIGINT NOT NULL,
    body        TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, eval_run_id, seq)
);
CREATE INDEX evaluation_results_ended ON evaluation_results (tenant_id, eval_run_id, ended, seq);

-- +goose Down
DROP TABLE evaluation_results;
DROP TABLE evaluations;
DROP TABLE eval_cases;
