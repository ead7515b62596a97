package tenantadminsql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{
		Name: "tenant_purges", People: []string{"asked_by"},
		Why: "The id of the operator's member who deletes a company, until it is deleted.",
	},
}
