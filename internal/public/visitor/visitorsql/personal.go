package visitorsql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people: a visitor is a session.
var Personal = []personal.Table{
	{
		Name: "visitor_sessions", By: personal.Session, Column: "session_id", People: []string{"token_hash"}, Erased: personal.Deleted,
		Shown: []string{"session_id", "agent_id", "messages", "created_at", "seen_at"},
	},
	{
		Name: "visitor_files", By: personal.Session, Column: "session_id", Erased: personal.Deleted,
		Shown: []string{"session_id", "file_id", "created_at"},
	},
}
