-- Passages are what is searched: entries of memories and chunks of knowledge
-- bases; see package retrieval. The tables after them are what else is known of
-- these.

-- +goose Up
CREATE TABLE collections (
    tenant_id     TEXT   NOT NULL,
    collection_id TEXT   NOT NULL, -- an agent or a knowledge base
    version       BIGINT NOT NULL, -- changes so far
    removed       BIGINT NOT NULL, -- the change that removed something last
    PRIMARY KEY (tenant_id, collection_id)
) WITHOUT ROWID;

CREATE TABLE passages (
    tenant_id     TEXT   NOT NULL,
    collection_id TEXT   NOT NULL,
    passage_id    TEXT   NOT NULL,
    source_id     TEXT   NOT NULL, -- '' where it is part of nothing
    position      BIGINT NOT NULL, -- in the source
    kind          TEXT   NOT NULL,
    text          TEXT   NOT NULL,
    boost         DOUBLE PRECISION NOT NULL,
    at            BIGINT NOT NULL, -- since when it ages
    version       BIGINT NOT NULL, -- of the collection, when this changed last
    vector_model  TEXT   NOT NULL, -- '' where no model has seen it
    vector        BYTEA,           -- of 4-byte floats
    PRIMARY KEY (tenant_id, collection_id, passage_id)
);

CREATE INDEX passages_changed ON passages (tenant_id, collection_id, version);
CREATE INDEX passages_source ON passages (tenant_id, collection_id, source_id, vector_model) WHERE source_id <> '';
CREATE INDEX passages_model ON passages (tenant_id, collection_id, vector_model);
-- Has everything that decides what a full memory gives up.
CREATE INDEX passages_weight ON passages (tenant_id, collection_id, at, boost, passage_id);

-- The text, kind, relevance and age of an entry stand in its passage.
CREATE TABLE memory_entries (
    tenant_id     TEXT   NOT NULL,
    agent_id      TEXT   NOT NULL,
    entry_id      TEXT   NOT NULL,
    tags          TEXT   NOT NULL, -- a JSON array
    source_run_id TEXT   NOT NULL, -- '' where no run made it
    origin        TEXT,            -- what made it, where that must not make it twice
    content_hash  TEXT   NOT NULL, -- of the normalized text
    entity_key    TEXT   NOT NULL, -- the normalized name, or ''
    entity_name   TEXT   NOT NULL,
    entity_type   TEXT   NOT NULL,
    run_outcome   TEXT   NOT NULL,
    metadata      TEXT   NOT NULL, -- a JSON object
    access_count  BIGINT NOT NULL,
    accessed_at   BIGINT NOT NULL, -- 0: never
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, entry_id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX memory_entries_origin ON memory_entries (tenant_id, agent_id, origin) WHERE origin IS NOT NULL;
CREATE INDEX memory_entries_content ON memory_entries (tenant_id, agent_id, content_hash);
CREATE INDEX memory_entries_entity ON memory_entries (tenant_id, agent_id, entity_key, entry_id) WHERE entity_key <> '';

CREATE TABLE memory_blocks (
    tenant_id  TEXT   NOT NULL,
    agent_id   TEXT   NOT NULL,
    label      TEXT   NOT NULL,
    content    TEXT   NOT NULL,
    max_tokens BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, label)
) WITHOUT ROWID;

CREATE TABLE kb_documents (
    tenant_id   TEXT   NOT NULL,
    kb_id       TEXT   NOT NULL,
    document_id TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    type        TEXT   NOT NULL,
    size_bytes  BIGINT NOT NULL,
    chunk_count BIGINT NOT NULL,
    preview     TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, kb_id, document_id)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE kb_documents;
DROP TABLE memory_blocks;
DROP TABLE memory_entries;
DROP TABLE passages;
DROP TABLE collections;
