package contracttest

import "agentd/internal/app/apptest"

// configuring are the recipes of the operator's settings.
var configuring = map[string]recipe{
	// The example of its row is a dry run, which changes nothing.
	"importAdminConfig": {body: apptest.Object{"sections": apptest.Object{"runtime": apptest.Object{"max_steps": 100000}}}},
}
