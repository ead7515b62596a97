-- What transactions used is appended, so that they do not wait for one another, and
-- added to the counters later; what is added is deleted. Reports read both.

-- +goose Up
CREATE TABLE usage_entries (
    tenant_id          TEXT   NOT NULL,
    entry_id           BIGINT NOT NULL, -- random: nothing is read by it
    day                TEXT   NOT NULL, -- 2026-09-10, UTC
    agent_id           TEXT   NOT NULL,
    model              TEXT   NOT NULL, -- '': no model was called
    source             TEXT   NOT NULL,
    key_id             TEXT   NOT NULL,
    runs               BIGINT NOT NULL,
    model_calls        BIGINT NOT NULL,
    input_tokens       BIGINT NOT NULL,
    output_tokens      BIGINT NOT NULL,
    thinking_tokens    BIGINT NOT NULL,
    tool_calls         BIGINT NOT NULL,
    cost_nano          BIGINT NOT NULL, -- billionths of a US dollar
    cached_tokens      BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, entry_id)
) WITHOUT ROWID;
-- +only postgres
-- Its rows live for a second: what is dead counts, not its share.
ALTER TABLE usage_entries SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000);
-- +end

-- +goose Down
DROP TABLE usage_entries;
