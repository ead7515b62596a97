-- Where a company's calls may go.

-- +goose Up
ALTER TABLE tenants ADD COLUMN egress_allowlist TEXT NOT NULL DEFAULT ''; -- a JSON array of entries; '': anywhere

-- +goose Down
ALTER TABLE tenants DROP COLUMN egress_allowlist;
