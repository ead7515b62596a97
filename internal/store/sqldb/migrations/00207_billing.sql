-- Subscriptions of companies, and the events of Stripe that were applied; see package
-- billing.

-- +goose Up
ALTER TABLE tenants ADD COLUMN past_due BOOLEAN NOT NULL DEFAULT FALSE; -- a payment failed

CREATE TABLE billing_accounts (
    tenant_id       TEXT   NOT NULL PRIMARY KEY,
    customer_id     TEXT   NOT NULL, -- of Stripe, as the next
    subscription_id TEXT   NOT NULL,
    status          TEXT   NOT NULL,
    plan            TEXT   NOT NULL, -- that is paid for
    trial_ends_at   BIGINT NOT NULL,
    plan_at         BIGINT NOT NULL, -- time of the event that set the plan
    status_at       BIGINT NOT NULL  -- and of the one that set the status
);
CREATE INDEX billing_accounts_customer ON billing_accounts (customer_id);

CREATE TABLE billing_events (
    event_id    TEXT   NOT NULL PRIMARY KEY,
    received_at BIGINT NOT NULL
);
CREATE INDEX billing_events_received ON billing_events (received_at);

-- +goose Down
DROP TABLE billing_events;
DROP TABLE billing_accounts;
ALTER TABLE tenants DROP COLUMN past_due;
