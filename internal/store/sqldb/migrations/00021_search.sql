-- What is searched; see package search. A row of search_docs is a thing that can
-- be found; its words are in search_words, and go when the row goes.

-- +goose Up
-- Runs in the order of their ends, so that what ended is found without the end
-- of a run having to write more than itself.
CREATE INDEX runs_ended ON runs (completed_at, tenant_id, run_id) WHERE completed_at > 0;

-- How many documents of a kind a tenant has had: they are numbered, and their
-- words are marked with the block of numbers that they are of.
CREATE TABLE search_numbers (
    tenant_id TEXT   NOT NULL,
    kind      TEXT   NOT NULL,
    last      BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, kind)
) WITHOUT ROWID;

-- How far things have been looked through.
CREATE TABLE search_marks (
    name      TEXT   NOT NULL PRIMARY KEY,
    at        BIGINT NOT NULL,
    tenant_id TEXT   NOT NULL,
    thing_id  TEXT   NOT NULL
) WITHOUT ROWID;

-- +only sqlite
CREATE TABLE search_docs (
    doc_id    INTEGER PRIMARY KEY,
    tenant_id TEXT   NOT NULL,
    kind      TEXT   NOT NULL,
    thing_id  TEXT   NOT NULL,
    parent_id TEXT   NOT NULL, -- the session of a run, or ''
    version   BIGINT NOT NULL, -- of the thing
    at        BIGINT NOT NULL
);
-- The tokens are ready made: all that the tokenizer does is to split at spaces.
CREATE VIRTUAL TABLE search_words USING fts5 (terms, content = '', contentless_delete = 1, tokenize = 'ascii', detail = 'none');
-- +goose StatementBegin
CREATE TRIGGER search_docs_gone AFTER DELETE ON search_docs BEGIN
    DELETE FROM search_words WHERE rowid = old.doc_id;
END;
-- +goose StatementEnd
-- +end
-- +only postgres
CREATE TABLE search_docs (
    doc_id    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id TEXT   NOT NULL,
    kind      TEXT   NOT NULL,
    thing_id  TEXT   NOT NULL,
    parent_id TEXT   NOT NULL,
    version   BIGINT NOT NULL,
    at        BIGINT NOT NULL
);
CREATE TABLE search_words (
    doc_id BIGINT   NOT NULL PRIMARY KEY REFERENCES search_docs (doc_id) ON DELETE CASCADE,
    terms  tsvector NOT NULL
);
-- What is pending is read by every search, whosever it is: it stays small.
CREATE INDEX search_words_terms ON search_words USING gin (terms) WITH (gin_pending_list_limit = 256);
-- +end

CREATE UNIQUE INDEX search_docs_thing ON search_docs (tenant_id, kind, thing_id);

-- +goose Down
DROP TABLE search_words;
DROP TABLE search_docs;
DROP TABLE search_marks;
DROP TABLE search_numbers;
DROP INDEX runs_ended;
