-- Leased work; see package work for what the columns mean.

-- +goose Up
CREATE TABLE work (
    kind      TEXT    NOT NULL,
    work_key  TEXT    NOT NULL,
    tenant_id TEXT    NOT NULL,
    due_at    BIGINT  NOT NULL, -- while it is held: the end of the lease
    epoch     BIGINT  NOT NULL, -- how often it was claimed: the fencing token
    attempt   BIGINT  NOT NULL, -- claims since it was last rescheduled
    owner     TEXT    NOT NULL, -- the node that holds or held it last, or ''
    payload   BYTEA,
    PRIMARY KEY (kind, work_key)
) WITHOUT ROWID;

-- What is due, and when the next is.
CREATE INDEX work_due ON work (kind, due_at);

-- Whose items are due: turns over tenants behind a backlog.
CREATE INDEX work_turn ON work (kind, tenant_id, due_at);

-- +goose Down
DROP TABLE work;
