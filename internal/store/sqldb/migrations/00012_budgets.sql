-- What runs with a max_cost_usd may spend, they and the runs that they start;
-- in billionths of a US dollar. See run.Budgets.

-- +goose Up
CREATE TABLE run_budgets (
    tenant_id TEXT   NOT NULL,
    budget_id TEXT   NOT NULL, -- the run that has the limit
    cap       BIGINT NOT NULL,
    spent     BIGINT NOT NULL,
    reserved  BIGINT NOT NULL, -- for model calls that are under way
    PRIMARY KEY (tenant_id, budget_id)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE run_budgets;
