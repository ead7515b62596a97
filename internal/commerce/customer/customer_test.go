package customer_test

import (
	"testing"

	"agentd/internal/commerce/customer"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestCustomers(t *testing.T) {
	t.Parallel()
	build := func(deps resource.Deps) *resource.Store[customer.Customer] {
		return resource.NewStore(customer.Customers, deps)
	}
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		resourcetest.Kind(t, resourcesql.New(db), db, build, resourcetest.Samples{
			Minimal: `{"email":"ada%d@example.com"}`,
			Defaults: map[string]string{
				"name": `""`, "status": `"active"`, "tags": `[]`, "addresses": `[]`, "tax_exempt": `false`, "metadata": `{}`,
			},
			Full: `{"name":"Ada Lovelace","first_name":"Ada","last_name":"Lovelace","email":"ada%d@example.com","phone":"+44 1",
				"status":"vip","tags":["a"],"note":"n","addresses":[{"city":"London"}],"accepts_marketing":true,"verified_email":true,
				"tax_exempt":true,"currency":"GBP","locale":"en-GB","metadata":{"a":1,"b":{"c":2}}}`,
			Refused: []resourcetest.Refused{
				{Body: `{}`, Fields: []string{"name"}},
				{Body: `{"name":" ","note":"x"}`, Fields: []string{"name"}},
				{
					Body:   `{"name":1,"email":"no address","tags":"x","addresses":[1],"tax_exempt":"no","metadata":[]}`,
					Fields: []string{"name", "email", "tags", "addresses[0]", "tax_exempt", "metadata"},
				},
			},
			Changes: []resourcetest.Changed{
				{Patch: `{"note":"new","email":"other@example.com"}`, Want: map[string]string{"note": `"new"`}},
				{Patch: `{"metadata":{"a":null,"d":4}}`, Want: map[string]string{"metadata": `{"b":{"c":2},"d":4}`}},
				{Patch: `{"status":null,"tags":[],"addresses":null}`, Want: map[string]string{"status": `"active"`, "tags": `[]`, "addresses": `[]`}},
			},
		})
	})
}
