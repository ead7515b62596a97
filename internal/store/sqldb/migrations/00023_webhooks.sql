-- Webhook subscriptions, the outbox of events and the log of deliveries; see
-- package webhook.

-- +goose Up
CREATE TABLE webhooks (
    tenant_id       TEXT   NOT NULL,
    webhook_id      TEXT   NOT NULL,
    url             TEXT   NOT NULL,
    events          TEXT   NOT NULL, -- names, each between commas
    sealed          BYTEA  NOT NULL, -- the secret
    status          TEXT   NOT NULL, -- active | failing | disabled | deleted
    failures        BIGINT NOT NULL, -- in a row
    last_failure_at BIGINT NOT NULL, -- 0: none
    created_at      BIGINT NOT NULL,
    deleted_at      BIGINT NOT NULL, -- 0: it is there
    PRIMARY KEY (tenant_id, webhook_id)
) WITHOUT ROWID;

CREATE TABLE webhook_events (
    tenant_id  TEXT   NOT NULL,
    event_id   TEXT   NOT NULL,
    event_type TEXT   NOT NULL,
    body       BYTEA  NOT NULL, -- as it is sent
    PRIMARY KEY (tenant_id, event_id)
);

-- A row is an attempt.
CREATE TABLE webhook_deliveries (
    tenant_id       TEXT    NOT NULL,
    webhook_id      TEXT    NOT NULL,
    delivery_id     TEXT    NOT NULL,
    event_id        TEXT    NOT NULL,
    event_type      TEXT    NOT NULL,
    attempt         BIGINT  NOT NULL, -- from 1
    status          TEXT    NOT NULL, -- pending | success | failed
    due_at          BIGINT  NOT NULL,
    response_status BIGINT  NOT NULL, -- 0: no answer
    failure         TEXT    NOT NULL, -- '': there was none
    latency_us      BIGINT  NOT NULL,
    next_retry_at   BIGINT  NOT NULL, -- 0: none
    dead            BOOLEAN NOT NULL, -- given up
    created_at      BIGINT  NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id, delivery_id)
) WITHOUT ROWID;

-- What is to be sent, and when the next is.
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (tenant_id, webhook_id, due_at, delivery_id) WHERE status = 'pending';

-- What was given up, for the operator.
CREATE INDEX webhook_deliveries_dead ON webhook_deliveries (delivery_id) WHERE dead;

-- +goose Down
DROP TABLE webhook_deliveries;
DROP TABLE webhook_events;
DROP TABLE webhooks;
