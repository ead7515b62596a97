-- Which secret keys the sealed values of this database need; see package secretsql.

-- +goose Up
-- Keys that values may be sealed with, until a rotation has found none left.
CREATE TABLE secret_keys (
    key_id     TEXT   NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL -- when a server first had it
);

-- The servers that run, with the keys that they have.
CREATE TABLE secret_servers (
    node    TEXT   NOT NULL PRIMARY KEY,
    key_ids TEXT   NOT NULL, -- by commas; the first one seals
    seen_at BIGINT NOT NULL
);

-- Secrets of the deployment that must outlive its secret keys.
CREATE TABLE kept_secrets (
    name   TEXT  NOT NULL PRIMARY KEY,
    sealed BYTEA NOT NULL
);

-- +goose Down
DROP TABLE kept_secrets;
DROP TABLE secret_servers;
DROP TABLE secret_keys;
