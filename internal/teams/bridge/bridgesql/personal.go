package bridgesql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people. The id of a task is that of its run.
var Personal = []personal.Table{
	{
		Name: "bridge_machines", People: []string{"user_id"},
		Why: "The id of the member with whose key a machine was registered. It goes when the machine is deleted.",
	},
	{
		Name: "bridge_tasks", By: personal.Run, Column: "task_id", Erased: personal.Deleted,
		Why: "What a machine was given is what its run was given.",
	},
	{Name: "bridge_events", By: personal.Run, Column: "task_id", Erased: personal.Deleted, Why: "Only which events have arrived."},
}
