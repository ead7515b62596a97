-- What the endpoint of a model's step wants back with its message: JSON, see
-- run.StepOpaque. It is sent to that endpoint only and shown to no one.

-- +goose Up
ALTER TABLE run_steps ADD COLUMN opaque TEXT;

-- +goose Down
ALTER TABLE run_steps DROP COLUMN opaque;
