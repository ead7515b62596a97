-- Conversations; see package session for what the columns mean. What is said in
-- them is in the runs and their steps, and nowhere else.

-- +goose Up
CREATE TABLE sessions (
    tenant_id      TEXT   NOT NULL,
    session_id     TEXT   NOT NULL,
    agent_id       TEXT   NOT NULL,
    team_id        TEXT,
    status         TEXT   NOT NULL,
    queue_mode     TEXT   NOT NULL,
    model_override TEXT,
    metadata       TEXT   NOT NULL,
    active_branch  TEXT   NOT NULL,
    turns          BIGINT NOT NULL, -- given out so far
    summary        TEXT   NOT NULL, -- for lists: first and last message, how many
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    expires_at     BIGINT NOT NULL, -- 0: never
    PRIMARY KEY (tenant_id, session_id)
) WITHOUT ROWID;
CREATE INDEX sessions_agent ON sessions (tenant_id, agent_id, session_id);

CREATE TABLE session_branches (
    tenant_id   TEXT   NOT NULL,
    session_id  TEXT   NOT NULL,
    branch_id   TEXT   NOT NULL,
    parent_id   TEXT   NOT NULL, -- '' of the root
    name        TEXT   NOT NULL, -- a JSON string
    fork_run_id TEXT   NOT NULL, -- '' where there was none
    fork_step   BIGINT NOT NULL, -- 0: the whole run; -1: its message alone
    status      TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, session_id, branch_id)
) WITHOUT ROWID;

-- Which run is which turn of which branch.
CREATE TABLE session_runs (
    tenant_id  TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    turn       BIGINT  NOT NULL,
    branch_id  TEXT    NOT NULL,
    run_id     TEXT    NOT NULL,
    finished   BOOLEAN NOT NULL,
    PRIMARY KEY (tenant_id, session_id, turn)
) WITHOUT ROWID;
CREATE UNIQUE INDEX session_runs_run ON session_runs (tenant_id, run_id);
-- Who is next.
CREATE INDEX session_runs_next ON session_runs (tenant_id, session_id, branch_id, turn) WHERE NOT finished;

-- Links that show a conversation to whoever has them. The table is found by
-- the hash of a link's secret, before it is known whose it is.
CREATE TABLE session_shares (
    share_hash TEXT   NOT NULL PRIMARY KEY,
    tenant_id  TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    sealed     BYTEA  NOT NULL, -- the secret, for its owner to see again
    role       TEXT   NOT NULL,
    expires_at BIGINT NOT NULL  -- 0: never
) WITHOUT ROWID;
CREATE UNIQUE INDEX session_shares_session ON session_shares (tenant_id, session_id);

CREATE TABLE session_todos (
    tenant_id  TEXT    NOT NULL,
    todo_id    TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    agent_id   TEXT    NOT NULL, -- '' where nobody is to do it
    status     TEXT    NOT NULL,
    finished   BOOLEAN NOT NULL,
    sort_key   BIGINT  NOT NULL, -- when it is due; of the finished, the end backwards
    due_at     BIGINT  NOT NULL, -- 0: at no time
    body       TEXT    NOT NULL,
    PRIMARY KEY (tenant_id, todo_id)
) WITHOUT ROWID;
CREATE INDEX session_todos_session ON session_todos (tenant_id, session_id, todo_id);
CREATE INDEX session_todos_due ON session_todos (tenant_id, finished, sort_key, todo_id);

-- +goose Down
DROP TABLE session_todos;
DROP TABLE session_shares;
DROP TABLE session_runs;
DROP TABLE session_branches;
DROP TABLE sessions;
