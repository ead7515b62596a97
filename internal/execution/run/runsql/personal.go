package runsql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people: the runs that a person started, and
// those that these started.
var Personal = []personal.Table{
	{
		Name: "runs", By: personal.Run, Column: "run_id", People: []string{"started_by"}, Key: "run_id",
		Shown: []string{
			"run_id", "agent_id", "session_id", "team_run_id", "status", "input", "output", "error", "error_code", "metrics", "metadata",
			"started_by", "created_at", "started_at", "completed_at",
		},
		Erased: personal.Deleted,
	},
	{
		Name: "run_steps", By: personal.Run, Column: "run_id", Order: []string{"seq"}, People: []string{"made_by"},
		Shown:  []string{"run_id", "seq", "type", "status", "started_at", "completed_at", "input", "output", "error", "tool_calls"},
		Erased: personal.Deleted,
	},
	{
		Name: "run_events", By: personal.Run, Column: "run_id", Erased: personal.Deleted,
		Why: "Events say again, in pieces, what the runs and their steps say.",
	},
	{
		Name: "run_labels", By: personal.Run, Column: "run_id", Erased: personal.Deleted,
		Why: "They are the metadata of runs, to find them by.",
	},
	{
		Name: "approvals", By: personal.Run, Column: "run_id", Order: []string{"approval_id"}, People: []string{"decided_by"},
		Shown: []string{
			"approval_id", "run_id", "tool_name", "arguments", "status", "requested_at", "decided_at", "decided_by", "reason", "response",
		},
		Erased: personal.Deleted,
	},
}
