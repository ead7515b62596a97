package ledgersql

import "agentd/internal/kernel/personal"

const chained = "The record of governance has ids alone. It is chained by its hashes, so nothing is taken out of it; once the " +
	"account is removed the ids name nobody."

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{Name: "ledger", People: []string{"actor_user_id"}, Why: chained},
	{Name: "ledger_unsealed", People: []string{"actor_user_id"}, Why: chained},
}
