-- What is counted in the transactions of writes: resources of some kinds, by state,
-- and revenue.

-- +goose Up
CREATE TABLE counters (
    tenant_id TEXT   NOT NULL,
    name      TEXT   NOT NULL,
    value     BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, name)
) WITHOUT ROWID;
INSERT INTO counters (tenant_id, name, value)
SELECT tenant_id, 'customer:', COUNT(*) FROM documents WHERE kind = 'customer' GROUP BY tenant_id;

-- +goose Down
DROP TABLE counters;
