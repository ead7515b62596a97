package teamrunsql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{
		Name: "team_runs", By: personal.Member, Column: "user_id", Where: "user_id <> ''",
		Key: "team_run_id", People: []string{"user_id", "key_id"},
		Order:  []string{"team_run_id"},
		Shown:  []string{"team_run_id", "team_id", "status", "message", "metadata", "output", "error", "created_at", "completed_at"},
		Erased: personal.WhenEnded, Why: "Work that is under way is erased once it has ended: cancel it, then repeat the erasure.",
	},
	{Name: "team_tasks", By: personal.Part, Of: "team_runs", Column: "team_run_id", Erased: personal.Deleted},
	{Name: "run_events", By: personal.Part, Of: "team_runs", Column: "run_id", Erased: personal.Deleted},
}
