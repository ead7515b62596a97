-- How runs ended and how long they were at work is counted beside what they used, so
-- that analytics read sums of days instead of runs.

-- +goose Up
ALTER TABLE usage_counters ADD COLUMN tool_errors BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_counters ADD COLUMN completed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_counters ADD COLUMN failures BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_counters ADD COLUMN cancelled BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_counters ADD COLUMN duration_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_entries ADD COLUMN tool_errors BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_entries ADD COLUMN completed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_entries ADD COLUMN failures BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_entries ADD COLUMN cancelled BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_entries ADD COLUMN duration_ms BIGINT NOT NULL DEFAULT 0;

CREATE TABLE usage_durations (
    tenant_id TEXT   NOT NULL,
    day       TEXT   NOT NULL, -- 2026-09-10, UTC
    agent_id  TEXT   NOT NULL,
    bucket    BIGINT NOT NULL, -- see usage.BucketOf
    runs      BIGINT NOT NULL, -- that ended on that day and took so long
    PRIMARY KEY (tenant_id, day, agent_id, bucket)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE usage_durations;
ALTER TABLE usage_entries DROP COLUMN duration_ms;
ALTER TABLE usage_entries DROP COLUMN cancelled;
ALTER TABLE usage_entries DROP COLUMN failures;
ALTER TABLE usage_entries DROP COLUMN completed;
ALTER TABLE usage_entries DROP COLUMN tool_errors;
ALTER TABLE usage_counters DROP COLUMN duration_ms;
ALTER TABLE usage_counters DROP COLUMN cancelled;
ALTER TABLE usage_counters DROP COLUMN failures;
ALTER TABLE usage_counters DROP COLUMN completed;
ALTER TABLE usage_counters DROP COLUMN tool_errors;
