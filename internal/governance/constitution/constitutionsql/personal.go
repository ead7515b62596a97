package constitutionsql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{
		Name: "governance_states", People: []string{"activated_by"},
		Why: "The id of the member who began an emergency, until the next one.",
	},
}
