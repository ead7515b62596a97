-- What authorizing MCP servers gave and is under way; see package mcp.

-- +goose Up
CREATE TABLE mcp_grants (
    tenant_id    TEXT   NOT NULL,
    server_id    TEXT   NOT NULL,
    version      BIGINT NOT NULL,
    claimed_till BIGINT NOT NULL, -- somebody refreshes it until then; 0: nobody
    sealed       BYTEA  NOT NULL,
    PRIMARY KEY (tenant_id, server_id)
);

CREATE TABLE mcp_pending (
    tenant_id  TEXT   NOT NULL,
    pending_id TEXT   NOT NULL,
    server_id  TEXT   NOT NULL,
    expires_at BIGINT NOT NULL,
    sealed     BYTEA  NOT NULL,
    PRIMARY KEY (tenant_id, pending_id)
);

CREATE INDEX mcp_pending_expires ON mcp_pending (expires_at);

-- +goose Down
DROP TABLE mcp_pending;
DROP TABLE mcp_grants;
