-- The step of a call leaves its arguments to the step of the model that asked
-- for it, where they are the same.

-- +goose Up
ALTER TABLE run_steps ADD COLUMN call_of BIGINT NOT NULL DEFAULT 0; -- seq of that step; 0: it has its own

-- +goose Down
ALTER TABLE run_steps DROP COLUMN call_of;
