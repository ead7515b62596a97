-- +goose Up
CREATE TABLE reconciliations (
    tenant_id TEXT NOT NULL PRIMARY KEY,
    body      TEXT NOT NULL -- the last comparison of its counters with its runs
);
CREATE TABLE reconciliation_turns (
    id         TEXT   NOT NULL PRIMARY KEY, -- 'last'
    started_at BIGINT NOT NULL, -- of the last one that a node began by itself
    body       TEXT   NOT NULL -- the last one that ended; '': none has
);

-- +goose Down
DROP TABLE reconciliation_turns;
DROP TABLE reconciliations;
