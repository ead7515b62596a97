package missionsql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{
		Name: "missions", By: personal.Member, Column: "user_id", Where: "user_id <> ''",
		Key: "mission_id", People: []string{"user_id", "key_id"},
		Order:  []string{"mission_id"},
		Shown:  []string{"mission_id", "session_id", "status", "spec", "report", "created_at", "completed_at"},
		Erased: personal.WhenEnded, Why: "Work that is under way is erased once it has ended: abort it, then repeat the erasure.",
	},
	{Name: "objectives", By: personal.Part, Of: "missions", Column: "owner_id", Erased: personal.Deleted},
	{Name: "objective_tasks", By: personal.Part, Of: "missions", Column: "owner_id", Erased: personal.Deleted},
	{Name: "run_events", By: personal.Part, Of: "missions", Column: "run_id", Erased: personal.Deleted},
}
