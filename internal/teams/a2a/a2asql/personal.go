package a2asql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people. The id of a task is that of its run.
var Personal = []personal.Table{
	{
		Name: "a2a_tasks", By: personal.Run, Column: "task_id", Shown: []string{"task_id", "agent_id", "messages", "metadata", "created_at"},
		Erased: personal.Deleted,
	},
	{
		Name: "a2a_pushes", By: personal.Run, Column: "task_id", Erased: personal.Deleted,
		Why: "Addresses that are called about a task, with their secrets.",
	},
}
