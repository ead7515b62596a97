-- Runs and sessions are listed by the time of their creation, also within a
-- filter, and found by members of their metadata; see sqldb.Labels.

-- +goose Up
DROP INDEX runs_agent;
DROP INDEX runs_session;
DROP INDEX runs_status;
DROP INDEX runs_agent_status;
DROP INDEX runs_started_by;
DROP INDEX runs_root;
DROP INDEX sessions_agent;
CREATE INDEX runs_created ON runs (tenant_id, created_at, run_id);
CREATE INDEX runs_agent ON runs (tenant_id, agent_id, created_at, run_id);
CREATE INDEX runs_session ON runs (tenant_id, session_id, created_at, run_id) WHERE session_id IS NOT NULL;
CREATE INDEX runs_status ON runs (tenant_id, status, created_at, run_id);
CREATE INDEX runs_agent_status ON runs (tenant_id, agent_id, status, created_at, run_id);
CREATE INDEX runs_started_by ON runs (tenant_id, started_by, created_at, run_id);
CREATE INDEX runs_root ON runs (tenant_id, root_run_id, created_at, run_id) WHERE root_run_id IS NOT NULL;
CREATE INDEX runs_error ON runs (tenant_id, error_code, created_at, run_id) WHERE error_code <> '';
CREATE INDEX sessions_created ON sessions (tenant_id, created_at, session_id);
CREATE INDEX sessions_agent ON sessions (tenant_id, agent_id, created_at, session_id);
CREATE INDEX sessions_status ON sessions (tenant_id, status, created_at, session_id);

CREATE TABLE run_labels (
    tenant_id  TEXT   NOT NULL,
    name       TEXT   NOT NULL, -- of a member of the metadata
    value      TEXT   NOT NULL, -- its text, or a hash of a long one
    created_at BIGINT NOT NULL, -- of the run
    run_id     TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, name, value, created_at, run_id)
) WITHOUT ROWID;
CREATE INDEX run_labels_run ON run_labels (tenant_id, run_id);

CREATE TABLE session_labels (
    tenant_id  TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    value      TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    session_id TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, name, value, created_at, session_id)
) WITHOUT ROWID;
CREATE INDEX session_labels_session ON session_labels (tenant_id, session_id);

-- +only sqlite
INSERT INTO run_labels SELECT r.tenant_id, m.key, CASE m.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(m.value AS text) END, r.created_at, r.run_id
    FROM runs AS r, json_each(r.metadata) AS m
    WHERE m.type IN ('text', 'integer', 'real', 'true', 'false') AND length(CAST(m.value AS BLOB)) <= 200 AND length(CAST(m.key AS BLOB)) <= 256;
INSERT INTO session_labels SELECT s.tenant_id, m.key, CASE m.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(m.value AS text) END, s.created_at, s.session_id
    FROM sessions AS s, json_each(s.metadata) AS m
    WHERE m.type IN ('text', 'integer', 'real', 'true', 'false') AND length(CAST(m.value AS BLOB)) <= 200 AND length(CAST(m.key AS BLOB)) <= 256;
-- +end
-- +only postgres
INSERT INTO run_labels SELECT r.tenant_id, m.key, m.value #>> '{}', r.created_at, r.run_id
    FROM (SELECT * FROM runs WHERE metadata NOT LIKE '%\u0000%' OFFSET 0) AS r, LATERAL json_each(r.metadata::json) AS m
    WHERE json_typeof(m.value) IN ('string', 'number', 'boolean') AND octet_length(m.value #>> '{}') <= 200 AND octet_length(m.key) <= 256
    ON CONFLICT DO NOTHING;
INSERT INTO session_labels SELECT s.tenant_id, m.key, m.value #>> '{}', s.created_at, s.session_id
    FROM (SELECT * FROM sessions WHERE metadata NOT LIKE '%\u0000%' OFFSET 0) AS s, LATERAL json_each(s.metadata::json) AS m
    WHERE json_typeof(m.value) IN ('string', 'number', 'boolean') AND octet_length(m.value #>> '{}') <= 200 AND octet_length(m.key) <= 256
    ON CONFLICT DO NOTHING;
-- +end

-- +goose Down
DROP TABLE session_labels;
DROP TABLE run_labels;
DROP INDEX sessions_status;
DROP INDEX sessions_agent;
DROP INDEX sessions_created;
DROP INDEX runs_error;
DROP INDEX runs_root;
DROP INDEX runs_started_by;
DROP INDEX runs_agent_status;
DROP INDEX runs_status;
DROP INDEX runs_session;
DROP INDEX runs_agent;
DROP INDEX runs_created;
CREATE INDEX sessions_agent ON sessions (tenant_id, agent_id, session_id);
CREATE INDEX runs_root ON runs (tenant_id, root_run_id, run_id) WHERE root_run_id IS NOT NULL;
CREATE INDEX runs_started_by ON runs (tenant_id, started_by, run_id);
CREATE INDEX runs_agent_status ON runs (tenant_id, agent_id, status, run_id);
CREATE INDEX runs_status ON runs (tenant_id, status, run_id);
CREATE INDEX runs_session ON runs (tenant_id, session_id, run_id) WHERE session_id IS NOT NULL;
CREATE INDEX runs_agent ON runs (tenant_id, agent_id, run_id);
