-- Tasks of agents of other systems, where their changes are sent, and which agents have
-- a public card; see package a2a.

-- +goose Up
CREATE TABLE a2a_tasks (
    tenant_id  TEXT   NOT NULL,
    task_id    TEXT   NOT NULL, -- the id of its run
    agent_id   TEXT   NOT NULL,
    context_id TEXT   NOT NULL, -- tasks of one conversation share it
    state      TEXT   NOT NULL,
    changes    BIGINT NOT NULL, -- of its state, so far
    messages   TEXT   NOT NULL,
    metadata   TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
);
CREATE INDEX a2a_tasks_context ON a2a_tasks (tenant_id, context_id, task_id);

CREATE TABLE a2a_pushes (
    tenant_id  TEXT   NOT NULL,
    task_id    TEXT   NOT NULL,
    config_id  TEXT   NOT NULL,
    url        TEXT   NOT NULL,
    version    TEXT   NOT NULL, -- of the protocol in which changes are sent
    sealed     BYTEA  NOT NULL, -- the credentials for the address
    sent       BIGINT NOT NULL, -- how many changes of the task are dealt with
    attempts   BIGINT NOT NULL, -- that failed since then
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, task_id, config_id)
);

CREATE TABLE a2a_published (
    agent_id  TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL
);
CREATE INDEX a2a_published_tenant ON a2a_published (tenant_id);
-- +only sqlite
INSERT INTO a2a_published (agent_id, tenant_id)
SELECT id, tenant_id FROM documents WHERE kind = 'agent' AND (
    json_extract(body, '$.visibility') = 'public' AND json_extract(body, '$.public_config.enabled') = 1
    OR json_extract(body, '$.a2a.enabled') = 1 AND json_extract(body, '$.a2a.public') = 1);
-- +end
-- +only postgres
INSERT INTO a2a_published (agent_id, tenant_id)
SELECT id, tenant_id FROM documents WHERE kind = 'agent' AND (
    body::jsonb ->> 'visibility' = 'public' AND body::jsonb #>> '{public_config,enabled}' = 'true'
    OR body::jsonb #>> '{a2a,enabled}' = 'true' AND body::jsonb #>> '{a2a,public}' = 'true');
-- +end

-- +goose Down
DROP TABLE a2a_published;
DROP TABLE a2a_pushes;
DROP TABLE a2a_tasks;
