-- +goose Up
-- The OpenAPI documents of integrations. They are long and rarely read, so they are
-- not part of the integration's own document.
CREATE TABLE integration_documents (
    tenant_id      TEXT  NOT NULL,
    integration_id TEXT  NOT NULL,
    document       BYTEA NOT NULL, -- gzip
    PRIMARY KEY (tenant_id, integration_id)
);

-- +goose Down
DROP TABLE integration_documents;
