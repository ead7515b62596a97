-- Every resource that has no table of its own: see package resource.
-- uniq and ix1 to ix4 are NULL where the document is in no such index.

-- +goose Up
CREATE TABLE documents (
    kind       TEXT   NOT NULL,
    tenant_id  TEXT   NOT NULL,
    id         TEXT   NOT NULL,
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    body       TEXT   NOT NULL,
    uniq       TEXT,
    ix1        TEXT,
    ix2        TEXT,
    ix3        TEXT,
    ix4        TEXT,
    PRIMARY KEY (kind, tenant_id, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX documents_uniq ON documents (kind, tenant_id, uniq) WHERE uniq IS NOT NULL;
CREATE INDEX documents_ix1 ON documents (kind, tenant_id, ix1, id) WHERE ix1 IS NOT NULL;
CREATE INDEX documents_ix2 ON documents (kind, tenant_id, ix2, id) WHERE ix2 IS NOT NULL;
CREATE INDEX documents_ix3 ON documents (kind, tenant_id, ix3, id) WHERE ix3 IS NOT NULL;
CREATE INDEX documents_ix4 ON documents (kind, tenant_id, ix4, id) WHERE ix4 IS NOT NULL;

-- +goose Down
DROP TABLE documents;
