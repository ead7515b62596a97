-- Conversations that front ends hold: their own id of a session, what they sent for a
-- turn, and the state that a page shares with its agent.

-- +goose Up
ALTER TABLE sessions ADD COLUMN external_id TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX sessions_client ON sessions (tenant_id, agent_id, external_id) WHERE external_id <> '';
CREATE INDEX sessions_external ON sessions (tenant_id, external_id, created_at, session_id) WHERE external_id <> '';

CREATE TABLE session_messages (
    tenant_id  TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    turn       BIGINT NOT NULL,
    reply      TEXT   NOT NULL, -- id of the message under which the front end got the answer
    messages   TEXT   NOT NULL, -- ids and hashes of what it sent
    PRIMARY KEY (tenant_id, session_id, turn)
);

CREATE TABLE session_states (
    tenant_id  TEXT NOT NULL,
    session_id TEXT NOT NULL,
    state      TEXT NOT NULL,
    step_id    TEXT NOT NULL, -- of the call that changed it last; '' where the page sent it
    PRIMARY KEY (tenant_id, session_id)
);

-- +goose Down
DROP TABLE session_states;
DROP TABLE session_messages;
DROP INDEX sessions_external;
DROP INDEX sessions_client;
ALTER TABLE sessions DROP COLUMN external_id;
