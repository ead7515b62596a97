-- The keys that companies keep for model providers; see package credential.

-- +goose Up
CREATE TABLE llm_credentials (
    tenant_id   TEXT   NOT NULL,
    provider_id TEXT   NOT NULL,
    endpoint    TEXT   NOT NULL, -- where the key goes, and nowhere else
    origin      TEXT   NOT NULL, -- of the endpoint: platform, public or own
    shared      BOOLEAN NOT NULL, -- for every model of the provider, not only for those who name it
    sealed      BYTEA  NOT NULL, -- the key
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, provider_id)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE llm_credentials;
