-- Entries of the audit log that are still to be pushed to the operator's SIEM.

-- +goose Up
CREATE TABLE audit_push ( -- one row while entries are pushed
    since BIGINT NOT NULL PRIMARY KEY
) WITHOUT ROWID;

CREATE TABLE audit_unsent ( -- written with the entry, deleted once the receiver has it
    at        BIGINT NOT NULL,
    entry_id  TEXT   NOT NULL,
    tenant_id TEXT   NOT NULL,
    PRIMARY KEY (at, entry_id)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE audit_unsent;
DROP TABLE audit_push;
