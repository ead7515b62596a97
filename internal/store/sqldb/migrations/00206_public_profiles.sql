-- Profiles of companies that strangers see.

-- +goose Up
ALTER TABLE tenants ADD COLUMN published_at BIGINT NOT NULL DEFAULT 0; -- 0: the profile is not public
ALTER TABLE tenants ADD COLUMN public_agent_id TEXT NOT NULL DEFAULT '';
ALTER TABLE tenants ADD COLUMN published_agents TEXT NOT NULL DEFAULT ''; -- ids, separated by spaces
ALTER TABLE tenants ADD COLUMN public_settings TEXT NOT NULL DEFAULT ''; -- a JSON object
CREATE INDEX tenants_published ON tenants (status, published_at) WHERE published_at > 0;

CREATE TABLE public_events (
    day    TEXT   NOT NULL, -- 2026-09-10, UTC
    name   TEXT   NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (day, name)
);

-- +goose Down
DROP TABLE public_events;
DROP INDEX tenants_published;
ALTER TABLE tenants DROP COLUMN public_settings;
ALTER TABLE tenants DROP COLUMN published_agents;
ALTER TABLE tenants DROP COLUMN public_agent_id;
ALTER TABLE tenants DROP COLUMN published_at;
