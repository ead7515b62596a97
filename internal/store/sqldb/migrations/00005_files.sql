-- Bytes, and what refers to them: files, workspaces, artifacts of runs. See
-- package blob for the first three tables.

-- +goose Up
CREATE TABLE blobs (
    tenant_id TEXT   NOT NULL,
    sha256    TEXT   NOT NULL, -- lower-case hex
    parts_id  TEXT   NOT NULL,
    size      BIGINT NOT NULL,
    refs      BIGINT NOT NULL, -- how many rows elsewhere name it
    PRIMARY KEY (tenant_id, sha256)
) WITHOUT ROWID;

-- No WITHOUT ROWID: rows this big are better off in a table of their own pages.
CREATE TABLE blob_parts (
    tenant_id TEXT   NOT NULL,
    parts_id  TEXT   NOT NULL,
    part      BIGINT NOT NULL,
    data      BYTEA  NOT NULL,
    PRIMARY KEY (tenant_id, parts_id, part)
);

-- Parts that no blob names: of uploads under way and of blobs that are gone.
CREATE TABLE blob_loose (
    tenant_id TEXT   NOT NULL,
    parts_id  TEXT   NOT NULL,
    due_at    BIGINT NOT NULL, -- when they may be deleted
    PRIMARY KEY (tenant_id, parts_id)
) WITHOUT ROWID;
CREATE INDEX blob_loose_due ON blob_loose (due_at);

CREATE TABLE files (
    tenant_id  TEXT   NOT NULL,
    file_id    TEXT   NOT NULL,
    filename   TEXT   NOT NULL,
    mime_type  TEXT   NOT NULL,
    mime_group TEXT   NOT NULL, -- what stands before the slash
    size       BIGINT NOT NULL,
    sha256     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, file_id)
) WITHOUT ROWID;
CREATE INDEX files_mime ON files (tenant_id, mime_group, file_id);

CREATE TABLE workspaces (
    tenant_id    TEXT   NOT NULL,
    workspace_id TEXT   NOT NULL,
    owner_type   TEXT   NOT NULL,
    owner_id     TEXT   NOT NULL, -- '' of a standalone one
    name         TEXT   NOT NULL,
    file_count   BIGINT NOT NULL,
    total_size   BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX workspaces_owner ON workspaces (tenant_id, owner_type, owner_id) WHERE owner_id <> '';

-- Which agents work in it, and which may read it.
CREATE TABLE workspace_agents (
    tenant_id    TEXT   NOT NULL,
    agent_id     TEXT   NOT NULL,
    relation     TEXT   NOT NULL, -- assigned | shared
    workspace_id TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, relation, workspace_id)
) WITHOUT ROWID;
CREATE INDEX workspace_agents_of ON workspace_agents (tenant_id, workspace_id);

CREATE TABLE workspace_files (
    tenant_id    TEXT   NOT NULL,
    workspace_id TEXT   NOT NULL,
    path         TEXT   NOT NULL,
    file_id      TEXT   NOT NULL,
    mime_type    TEXT   NOT NULL,
    size         BIGINT NOT NULL,
    sha256       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id, path)
) WITHOUT ROWID;

CREATE TABLE run_artifacts (
    tenant_id   TEXT   NOT NULL,
    run_id      TEXT   NOT NULL,
    artifact_id TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    mime_type   TEXT   NOT NULL,
    size        BIGINT NOT NULL,
    sha256      TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, run_id, artifact_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX run_artifacts_id ON run_artifacts (tenant_id, artifact_id);

-- +goose Down
DROP TABLE run_artifacts;
DROP TABLE workspace_files;
DROP TABLE workspace_agents;
DROP TABLE workspaces;
DROP TABLE files;
DROP TABLE blob_loose;
DROP TABLE blob_parts;
DROP TABLE blobs;
