-- Lists by two filters that are used together walk an index of both, and what
-- read all of a table has an index.

-- +goose Up
CREATE INDEX runs_agent_status ON runs (tenant_id, agent_id, status, run_id);
CREATE INDEX approvals_agent ON approvals (tenant_id, agent_id, approval_id);
-- The notifications to one user, and those to everybody.
CREATE INDEX notifications_user ON notifications (tenant_id, user_id, seq);
DROP INDEX notifications_unread;
CREATE INDEX notifications_unread ON notifications (tenant_id, user_id, seq) WHERE read_at = 0;
CREATE INDEX session_todos_when ON session_todos (tenant_id, due_at, todo_id) WHERE due_at <> 0;
CREATE INDEX session_todos_agent ON session_todos (tenant_id, agent_id, finished, sort_key, todo_id);
CREATE INDEX session_todos_status ON session_todos (tenant_id, status, finished, sort_key, todo_id);
CREATE INDEX workspaces_type ON workspaces (tenant_id, owner_type);
DROP INDEX passages_model;
CREATE INDEX passages_model ON passages (tenant_id, collection_id, vector_model, passage_id);
DROP INDEX workspace_agents_of;
CREATE INDEX workspace_agents_of ON workspace_agents (tenant_id, workspace_id, agent_id, relation);
CREATE INDEX invites_waiting ON invites (tenant_id, invite_id) WHERE status = 'pending';
CREATE INDEX webhooks_deleted ON webhooks (deleted_at) WHERE deleted_at > 0;

-- +goose Down
DROP INDEX webhooks_deleted;
DROP INDEX invites_waiting;
DROP INDEX workspace_agents_of;
CREATE INDEX workspace_agents_of ON workspace_agents (tenant_id, workspace_id);
DROP INDEX passages_model;
CREATE INDEX passages_model ON passages (tenant_id, collection_id, vector_model);
DROP INDEX workspaces_type;
DROP INDEX session_todos_status;
DROP INDEX session_todos_agent;
DROP INDEX session_todos_when;
DROP INDEX notifications_unread;
CREATE INDEX notifications_unread ON notifications (tenant_id, seq) WHERE read_at = 0;
DROP INDEX notifications_user;
DROP INDEX approvals_agent;
DROP INDEX runs_agent_status;
