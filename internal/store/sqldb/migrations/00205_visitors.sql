-- Sessions of visitors: strangers who talk with public agents; see package visitor.

-- +goose Up
CREATE TABLE visitor_sessions (
    tenant_id  TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    agent_id   TEXT   NOT NULL,
    token_hash BYTEA  NOT NULL, -- SHA-256
    messages   BIGINT NOT NULL, -- that were accepted
    seen_at    BIGINT NOT NULL, -- when it was begun, or had its last message
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, session_id)
);
CREATE UNIQUE INDEX visitor_sessions_token ON visitor_sessions (token_hash);
CREATE INDEX visitor_sessions_seen ON visitor_sessions (tenant_id, agent_id, seen_at);
CREATE INDEX visitor_sessions_created ON visitor_sessions (tenant_id, agent_id, created_at);

CREATE TABLE visitor_agents (
    tenant_id TEXT   NOT NULL,
    agent_id  TEXT   NOT NULL,
    day       TEXT   NOT NULL, -- 2026-09-10, UTC
    messages  BIGINT NOT NULL, -- on that day
    PRIMARY KEY (tenant_id, agent_id)
);

CREATE TABLE visitor_files (
    file_id    TEXT   NOT NULL PRIMARY KEY,
    tenant_id  TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX visitor_files_session ON visitor_files (tenant_id, session_id);

-- +goose Down
DROP TABLE visitor_files;
DROP TABLE visitor_agents;
DROP TABLE visitor_sessions;
