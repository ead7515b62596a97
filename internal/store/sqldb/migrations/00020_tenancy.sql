-- What the operator does with tenants; see package tenancy.

-- +goose Up
ALTER TABLE tenants ADD COLUMN suspended_at BIGINT NOT NULL DEFAULT 0;          -- 0: it is not
ALTER TABLE tenants ADD COLUMN suspension_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE tenants ADD COLUMN purge_protected BOOLEAN NOT NULL DEFAULT FALSE;
-- Who may not have anything done: looked at every second.
CREATE INDEX tenants_inactive ON tenants (tenant_id) WHERE status <> 'active';

-- Purges that are under way.
CREATE TABLE tenant_purges (
    subject_id TEXT   NOT NULL PRIMARY KEY, -- the tenant, which this outlives
    name       TEXT   NOT NULL,
    asked_by   TEXT   NOT NULL, -- a JSON object
    asked_at   BIGINT NOT NULL,
    counts     TEXT   NOT NULL, -- a JSON object: rows deleted so far, by what they are
    told       BOOLEAN NOT NULL -- the tenant is gone and the log has it; what is left is a last look
) WITHOUT ROWID;

-- +goose Down
DROP TABLE tenant_purges;
DROP INDEX tenants_inactive;
ALTER TABLE tenants DROP COLUMN purge_protected;
ALTER TABLE tenants DROP COLUMN suspension_reason;
ALTER TABLE tenants DROP COLUMN suspended_at;
