-- What tenants use, and what they are told of it; see package usage.

-- +goose Up
-- One row for each month and each day of a tenant, with its totals (agent_id,
-- model and source are ''), and rows that say what a day's are made of. All that
-- a transaction counts is written by one statement, the month's row first: who
-- has that is alone with the tenant's counters.
CREATE TABLE usage_counters (
    tenant_id       TEXT   NOT NULL,
    period          TEXT   NOT NULL, -- 2026-09 | 2026-09-10, UTC
    agent_id        TEXT   NOT NULL,
    model           TEXT   NOT NULL, -- '': no model was asked
    source          TEXT   NOT NULL,
    runs            BIGINT NOT NULL,
    model_calls     BIGINT NOT NULL,
    input_tokens    BIGINT NOT NULL,
    output_tokens   BIGINT NOT NULL,
    thinking_tokens BIGINT NOT NULL,
    tool_calls      BIGINT NOT NULL,
    cost_nano       BIGINT NOT NULL, -- billionths of a US dollar
    PRIMARY KEY (tenant_id, period, agent_id, model, source)
) WITHOUT ROWID;

-- Whoever makes a thing of which a plan allows so many locks its row.
CREATE TABLE usage_locks (
    tenant_id TEXT NOT NULL,
    resource  TEXT NOT NULL,
    PRIMARY KEY (tenant_id, resource)
) WITHOUT ROWID;

-- What a tenant wants to spend at most.
CREATE TABLE usage_budgets (
    tenant_id      TEXT             NOT NULL PRIMARY KEY,
    limit_nano     BIGINT           NOT NULL,
    soft_threshold DOUBLE PRECISION NOT NULL,
    hard_threshold DOUBLE PRECISION NOT NULL,
    period         TEXT             NOT NULL, -- monthly | weekly | daily
    updated_at     BIGINT           NOT NULL
) WITHOUT ROWID;

-- That a counter or a budget went past a mark: once for each period and limit.
CREATE TABLE usage_events (
    tenant_id  TEXT   NOT NULL,
    event_id   TEXT   NOT NULL,
    type       TEXT   NOT NULL, -- quota.threshold | quota.exceeded
    resource   TEXT   NOT NULL,
    period     TEXT   NOT NULL, -- the first day, or the month
    used       BIGINT NOT NULL, -- of money: billionths of a US dollar
    cap        BIGINT NOT NULL,
    resets_at  BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, event_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX usage_events_once ON usage_events (tenant_id, resource, period, type, cap);

CREATE INDEX sessions_active ON sessions (tenant_id, expires_at) WHERE status = 'active';

-- +goose Down
DROP INDEX sessions_active;
DROP TABLE usage_events;
DROP TABLE usage_budgets;
DROP TABLE usage_locks;
DROP TABLE usage_counters;
