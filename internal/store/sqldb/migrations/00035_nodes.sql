-- The nodes that run over this database, and what a node held when it died; see
-- package worksql for what the columns mean.

-- +goose Up
CREATE TABLE nodes (
    node       TEXT   NOT NULL PRIMARY KEY, -- the name that owns leases
    boot_id    TEXT   NOT NULL, -- random: the process that holds the name
    host       TEXT   NOT NULL, -- where its data directory is
    path       TEXT   NOT NULL,
    inode      BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL  -- its newest heartbeat
) WITHOUT ROWID;

-- What a node holds. SQLite's one node takes everything at its start.
-- +only postgres
CREATE INDEX work_owner ON work (owner) WHERE owner <> '';
-- +end

-- +goose Down
-- +only postgres
DROP INDEX work_owner;
-- +end
DROP TABLE nodes;
