package enrollment_test

import (
	"testing"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/commerce/enrollment"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestEnrollments(t *testing.T) {
	t.Parallel()
	customer, course := ident.New(), ident.New()
	only := func(known, what string) func(txn.Tx, string, string) error {
		return func(_ txn.Tx, _, id string) error {
			if id == known {
				return nil
			}
			return fault.NewNotFound(what)
		}
	}
	body := `{"customer_id":"` + customer + `","product_id":"` + course + `","metadata":{"n":%d}}`
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		resourcetest.Kind(t, resourcesql.New(db), db, func(deps resource.Deps) *resource.Store[enrollment.Enrollment] {
			deps.Counters = resourcesql.NewCounters(db)
			return enrollment.New(deps, enrollment.Options{
				Clock: clock.System{}, Customer: only(customer, "customer"), Product: only(course, "product"),
			}).Store()
		}, resourcetest.Samples{
			Minimal:  body,
			Defaults: map[string]string{"status": `"active"`, "order_id": `null`, "completed_at": `null`},
			Full:     body,
			Refused: []resourcetest.Refused{
				{Body: `{}`, Fields: []string{"customer_id", "product_id"}},
				{Body: `{"customer_id":1,"product_id":"` + course + `","metadata":[]}`, Fields: []string{"customer_id", "metadata"}},
			},
		})
	})
}
