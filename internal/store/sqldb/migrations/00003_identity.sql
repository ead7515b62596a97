-- Tenants, members and keys; see package identity for what the columns mean.

-- +goose Up
CREATE TABLE tenants (
    tenant_id  TEXT    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    slug       TEXT    NOT NULL UNIQUE,
    status     TEXT    NOT NULL,
    plan       TEXT    NOT NULL,
    settings   TEXT    NOT NULL, -- a JSON object
    operator   BOOLEAN NOT NULL, -- the first tenant, which runs the platform
    created_at BIGINT  NOT NULL,
    updated_at BIGINT  NOT NULL
);

CREATE UNIQUE INDEX tenants_operator ON tenants (operator) WHERE operator;

CREATE TABLE users (
    tenant_id  TEXT   NOT NULL REFERENCES tenants (tenant_id),
    user_id    TEXT   NOT NULL,
    email      TEXT   NOT NULL, -- '' where it is not known
    name       TEXT   NOT NULL,
    role       TEXT   NOT NULL,
    status     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
);

CREATE UNIQUE INDEX users_email ON users (tenant_id, email) WHERE email <> '';

CREATE TABLE api_keys (
    tenant_id    TEXT   NOT NULL,
    key_id       TEXT   NOT NULL,
    user_id      TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    prefix       TEXT   NOT NULL UNIQUE,
    secret_hash  BYTEA  NOT NULL, -- SHA-256
    scopes       TEXT   NOT NULL, -- separated by spaces
    status       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL, -- 0: never
    expires_at   BIGINT NOT NULL, -- 0: never
    revoked_at   BIGINT NOT NULL, -- 0: not revoked
    PRIMARY KEY (tenant_id, key_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id)
);

CREATE INDEX api_keys_user ON api_keys (tenant_id, user_id, key_id);

-- +goose Down
DROP TABLE api_keys;
DROP TABLE users;
DROP TABLE tenants;
