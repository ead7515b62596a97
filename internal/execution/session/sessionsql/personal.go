package sessionsql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people: the sessions in which nobody else
// started a run.
var Personal = []personal.Table{
	{
		Name: "sessions", By: personal.Session, Column: "session_id", Key: "session_id",
		Shown: []string{"session_id", "agent_id", "team_id", "status", "metadata", "summary", "created_at", "updated_at", "expires_at",
			"external_id"},
		Erased: personal.Deleted,
	},
	{
		Name: "session_runs", By: personal.Run, Column: "run_id", Erased: personal.Deleted,
		Why: "It says which runs belong to a session, as the runs do.",
	},
	{
		Name: "session_branches", By: personal.Session, Column: "session_id", Erased: personal.Deleted,
		Shown: []string{"session_id", "branch_id", "name", "status", "created_at"},
	},
	{
		Name: "session_shares", By: personal.Session, Column: "session_id", Erased: personal.Deleted,
		Why: "Links to conversations are secrets.",
	},
	{
		Name: "session_todos", By: personal.Session, Column: "session_id", Order: []string{"todo_id"}, Erased: personal.Deleted,
		Shown: []string{"todo_id", "session_id", "status", "due_at", "body"},
	},
	{
		Name: "session_labels", By: personal.Session, Column: "session_id", Erased: personal.Deleted,
		Why: "They are the metadata of sessions, to find them by.",
	},
	{
		Name: "session_messages", By: personal.Session, Column: "session_id", Erased: personal.Deleted,
		Why: "They are ids and hashes of messages that the session's runs have.",
	},
	{
		Name: "session_states", By: personal.Session, Column: "session_id", Shown: []string{"session_id", "state"}, Erased: personal.Deleted,
	},
	{
		Name: "documents", By: personal.Session, Column: "ix1", Where: "kind = 'session_annotation'", Shown: []string{"id", "body", "created_at"},
		Erased: personal.Deleted,
	},
}
