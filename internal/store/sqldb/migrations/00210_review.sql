-- What people note about runs: checkpoints, and what they think of messages; see package
-- review.

-- +goose Up
CREATE TABLE run_checkpoints (
    tenant_id     TEXT   NOT NULL,
    run_id        TEXT   NOT NULL,
    checkpoint_id TEXT   NOT NULL,
    step_seq      BIGINT NOT NULL, -- the last step that was committed
    status        TEXT   NOT NULL, -- of the run, then
    metrics       TEXT   NOT NULL,
    created_by    TEXT   NOT NULL, -- the user
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, run_id, checkpoint_id)
);

CREATE TABLE run_feedback (
    tenant_id  TEXT   NOT NULL,
    run_id     TEXT   NOT NULL,
    message_id TEXT   NOT NULL,
    user_id    TEXT   NOT NULL, -- whose opinion it is
    reaction   TEXT   NOT NULL,
    reason     TEXT   NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, run_id, message_id, user_id)
);
CREATE INDEX run_feedback_user ON run_feedback (tenant_id, user_id, run_id, message_id);

-- +goose Down
DROP TABLE run_feedback;
DROP TABLE run_checkpoints;
