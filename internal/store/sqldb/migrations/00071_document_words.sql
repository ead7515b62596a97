-- The beginnings of the words by which documents are found; see resource.Doc.
-- Migration 72 fills it for documents that are there.

-- +goose Up
CREATE TABLE document_words (
    kind      TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    word      TEXT NOT NULL,
    id        TEXT NOT NULL,
    PRIMARY KEY (kind, tenant_id, word, id)
) WITHOUT ROWID;
CREATE INDEX document_words_id ON document_words (kind, tenant_id, id);

-- +goose Down
DROP TABLE document_words;
