package usagesql

import "agentd/internal/kernel/personal"

const usageWhy = "Amounts by agent, model and key, without content: the company is billed by them."

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{Name: "usage_counters", People: []string{"key_id"}, Why: usageWhy},
	{Name: "usage_entries", People: []string{"key_id"}, Why: usageWhy},
}
