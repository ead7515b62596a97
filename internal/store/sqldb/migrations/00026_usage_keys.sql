-- Use is told apart by the key that asked, too. Rows whose period begins with
-- "p:" count requests to the model proxy (in runs), by the hour and by the day,
-- where a plan limits these.

-- +goose Up
CREATE TABLE usage_counters_by_key (
    tenant_id       TEXT   NOT NULL,
    period          TEXT   NOT NULL, -- 2026-09 | 2026-09-10 | p:2026-09-10T12 | p:2026-09-10, UTC
    agent_id        TEXT   NOT NULL,
    model           TEXT   NOT NULL, -- '': no model was asked
    source          TEXT   NOT NULL,
    key_id          TEXT   NOT NULL, -- '': a person asked, or nobody
    runs            BIGINT NOT NULL,
    model_calls     BIGINT NOT NULL,
    input_tokens    BIGINT NOT NULL,
    output_tokens   BIGINT NOT NULL,
    thinking_tokens BIGINT NOT NULL,
    tool_calls      BIGINT NOT NULL,
    cost_nano       BIGINT NOT NULL, -- billionths of a US dollar
    PRIMARY KEY (tenant_id, period, agent_id, model, source, key_id)
) WITHOUT ROWID;
INSERT INTO usage_counters_by_key (tenant_id, period, agent_id, model, source, key_id,
    runs, model_calls, input_tokens, output_tokens, thinking_tokens, tool_calls, cost_nano)
    SELECT tenant_id, period, agent_id, model, source, '',
    runs, model_calls, input_tokens, output_tokens, thinking_tokens, tool_calls, cost_nano FROM usage_counters;
DROP TABLE usage_counters;
ALTER TABLE usage_counters_by_key RENAME TO usage_counters;

-- +goose Down
CREATE TABLE usage_counters_before (
    tenant_id       TEXT   NOT NULL,
    period          TEXT   NOT NULL,
    agent_id        TEXT   NOT NULL,
    model           TEXT   NOT NULL,
    source          TEXT   NOT NULL,
    runs            BIGINT NOT NULL,
    model_calls     BIGINT NOT NULL,
    input_tokens    BIGINT NOT NULL,
    output_tokens   BIGINT NOT NULL,
    thinking_tokens BIGINT NOT NULL,
    tool_calls      BIGINT NOT NULL,
    cost_nano       BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, period, agent_id, model, source)
) WITHOUT ROWID;
INSERT INTO usage_counters_before (tenant_id, period, agent_id, model, source,
    runs, model_calls, input_tokens, output_tokens, thinking_tokens, tool_calls, cost_nano)
    SELECT tenant_id, period, agent_id, model, source, SUM(runs), SUM(model_calls), SUM(input_tokens), SUM(output_tokens),
    SUM(thinking_tokens), SUM(tool_calls), SUM(cost_nano) FROM usage_counters GROUP BY tenant_id, period, agent_id, model, source;
DROP TABLE usage_counters;
ALTER TABLE usage_counters_before RENAME TO usage_counters;
