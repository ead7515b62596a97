-- Signed-in browsers; see package identity for what the columns mean. A
-- session may move from one of a person's tenants to another, so its id alone
-- is its key.

-- +goose Up
CREATE TABLE browser_sessions (
    session_id   TEXT    NOT NULL PRIMARY KEY,
    tenant_id    TEXT    NOT NULL,
    user_id      TEXT    NOT NULL,
    prefix       TEXT    NOT NULL UNIQUE,
    secret_hash  BYTEA   NOT NULL, -- SHA-256
    label        TEXT    NOT NULL,
    address      TEXT    NOT NULL,
    method       TEXT    NOT NULL,
    needs_factor BOOLEAN NOT NULL,
    created_at   BIGINT  NOT NULL,
    last_used_at BIGINT  NOT NULL,
    renewed_at   BIGINT  NOT NULL, -- when its cookie was last sent
    verified_at  BIGINT  NOT NULL, -- 0: never
    ended_at     BIGINT  NOT NULL, -- 0: it lives
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id) ON DELETE CASCADE
);

CREATE INDEX browser_sessions_user ON browser_sessions (tenant_id, user_id, last_used_at);

-- +goose Down
DROP TABLE browser_sessions;
