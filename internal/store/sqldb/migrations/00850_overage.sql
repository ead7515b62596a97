-- Whether a tenant may use more than its plan includes, within its budget.

-- +goose Up
ALTER TABLE usage_budgets ADD COLUMN overage BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
ALTER TABLE usage_budgets DROP COLUMN overage;
