package responsechainsql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{
		Name: "responses", By: personal.Run, Column: "run_id",
		Shown: []string{"run_id", "previous_id", "standing", "asked"}, Erased: personal.Deleted,
	},
}
