-- The addresses at which agents listen; see package sensor.

-- +goose Up
CREATE TABLE sensors (
    tenant_id         TEXT   NOT NULL,
    webhook_id        TEXT   NOT NULL,
    agent_id          TEXT   NOT NULL,
    made_by_run       TEXT   NOT NULL, -- '': a person made it
    instructions      TEXT   NOT NULL,
    sealed            BYTEA  NOT NULL, -- the secret; empty: calls are not signed
    max_triggers      BIGINT NOT NULL, -- 0: any number
    triggers          BIGINT NOT NULL, -- the calls that made a run
    expires_at        BIGINT NOT NULL, -- 0: never
    ended_at          BIGINT NOT NULL, -- its last trigger was spent, or its agent was deleted; 0: neither
    created_at        BIGINT NOT NULL,
    last_triggered_at BIGINT NOT NULL, -- 0: never
    PRIMARY KEY (tenant_id, webhook_id)
) WITHOUT ROWID;
-- Who calls one says no tenant.
CREATE UNIQUE INDEX sensors_id ON sensors (webhook_id);
CREATE INDEX sensors_agent ON sensors (tenant_id, agent_id);

-- Calls that carried an id of their own, so that one that comes again has no
-- second effect.
CREATE TABLE sensor_calls (
    tenant_id  TEXT   NOT NULL,
    webhook_id TEXT   NOT NULL,
    call_hash  TEXT   NOT NULL, -- of the id and the body
    run_id     TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id, call_hash)
) WITHOUT ROWID;
CREATE INDEX sensor_calls_age ON sensor_calls (tenant_id, webhook_id, at);

-- +goose Down
DROP TABLE sensor_calls;
DROP TABLE sensors;
