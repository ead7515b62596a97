-- Runs that continue failed ones; see run.Service.Continue.

-- +goose Up
ALTER TABLE runs ADD COLUMN continued_by TEXT;    -- the run that continues this one, if any
ALTER TABLE run_steps ADD COLUMN made_by TEXT;    -- the run that made the step, where this one inherited it

-- +goose Down
ALTER TABLE run_steps DROP COLUMN made_by;
ALTER TABLE runs DROP COLUMN continued_by;
