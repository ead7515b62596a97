package product_test

import (
	"testing"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/commerce/product"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

const known = "01920000-0000-7000-8000-000000000001"

func exists(what string) func(txn.Tx, string, string) error {
	return func(_ txn.Tx, _, id string) error {
		if id == known {
			return nil
		}
		return fault.NewNotFound(what)
	}
}

func TestProducts(t *testing.T) {
	t.Parallel()
	build := func(deps resource.Deps) *resource.Store[product.Product] {
		return product.New(deps, product.Options{Agent: exists("agent"), KnowledgeBase: exists("knowledge base")}).Store
	}
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		resourcetest.Kind(t, resourcesql.New(db), db, build, resourcetest.Samples{
			Minimal: `{"name":"Sailing %d","type":"course","price_cents":4900,"currency":"eur"}`,
			Defaults: map[string]string{
				"status": `"active"`, "tags": `[]`, "images": `[]`, "variants": `[]`, "options": `[]`, "knowledge_base_ids": `[]`,
				"agent_id": `null`, "course_structure": `null`, "metadata": `{}`, "currency": `"EUR"`,
			},
			Full: `{"name":"Sailing %d","type":"course","status":"active","price_cents":4900,"currency":"EUR","compare_at_price_cents":5900,
				"description":"Six weeks","body_html":"<p>Six weeks</p>","slug":"sailing","category":"sport","vendor":"Club","tags":["sea"],
				"images":["https://example.com/a.png"],"variants":[{"size":"L"}],"options":[{"name":"size"}],"agent_id":"` + known + `",
				"knowledge_base_ids":["` + known + `"],"course_structure":{"chapters":[{"title":"Knots"}]},"storefront_product_id":"sf-1",
				"payment_price_id":"price_1","metadata":{"a":1,"b":{"c":2}}}`,
			Refused: []resourcetest.Refused{
				{Body: `{}`, Fields: []string{"name", "type", "price_cents", "currency"}},
				{Body: `{"name":" ","type":"course","price_cents":1,"currency":"EUR"}`, Fields: []string{"name"}},
				{
					Body: `{"name":"x","type":"boat","price_cents":-1,"currency":"euros","status":"gone","variants":[1],"tags":"x","metadata":[],
						"compare_at_price_cents":-1,"images":[""],"course_structure":1}`,
					Fields: []string{"type", "price_cents", "currency", "status", "variants[0]", "tags", "metadata", "compare_at_price_cents",
						"course_structure"},
				},
				{
					Body:   `{"name":"x","type":"course","price_cents":1,"currency":"EUR","knowledge_base_ids":["01920000-0000-7000-8000-000000000009"]}`,
					Fields: []string{"knowledge_base_ids[0]"},
				},
			},
			Changes: []resourcetest.Changed{
				{Patch: `{"status":"archived"}`, Want: map[string]string{"status": `"archived"`}},
				{Patch: `{"price_cents":5000,"currency":"usd"}`, Want: map[string]string{"price_cents": `5000`, "currency": `"USD"`}},
				{Patch: `{"metadata":{"a":null,"d":4}}`, Want: map[string]string{"metadata": `{"b":{"c":2},"d":4}`}},
				{Patch: `{"agent_id":null,"course_structure":null}`, Want: map[string]string{"agent_id": `null`, "course_structure": `null`}},
			},
		})
	})
}
