-- The kinds of data that a tenant does not store, separated by spaces; see package redact.

-- +goose Up
ALTER TABLE tenants ADD COLUMN redact TEXT NOT NULL DEFAULT '';
CREATE INDEX tenants_redact ON tenants (tenant_id) WHERE redact <> '';

-- +goose Down
DROP INDEX tenants_redact;
ALTER TABLE tenants DROP COLUMN redact;
