package idempotencysql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{Name: "idempotency", People: []string{"credential_id"}, Why: "Answers to repeated writes are encrypted, and deleted after a day."},
}
