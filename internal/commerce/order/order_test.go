package order_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/commerce/customer"
	"agentd/internal/commerce/enrollment"
	"agentd/internal/commerce/order"
	"agentd/internal/commerce/product"
	"agentd/internal/commerce/sales"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// shop is everything that a company sells with.
type shop struct {
	who         authz.Caller
	customers   *resource.Store[customer.Customer]
	products    *product.Products
	orders      *order.Orders
	enrollments *enrollment.Enrollments
	sales       *sales.Service
}

func newShop(db *sqldb.DB) *shop {
	deps, _ := resourcetest.Deps(resourcesql.New(db), db)
	deps.Counters = resourcesql.NewCounters(db)
	anything := func(txn.Tx, string, string) error { return nil }
	s := &shop{who: authz.Caller{TenantID: ident.New()}, customers: resource.NewStore(customer.Customers, deps)}
	s.products = product.New(deps, product.Options{Agent: anything, KnowledgeBase: anything})
	exists := func(tx txn.Tx, tenant, id string) error {
		_, err := s.customers.GetTx(tx, tenant, id)
		return err
	}
	s.enrollments = enrollment.New(deps, enrollment.Options{Clock: clock.System{}, Customer: exists, Product: anything})
	s.orders = order.New(deps, order.Options{
		Clock: clock.System{}, Counters: deps.Counters, Enrollments: s.enrollments, Customer: exists, Product: s.products.GetTx,
	})
	s.sales = &sales.Service{Counters: deps.Counters}
	return s
}

func (s *shop) customer(t *testing.T) string {
	t.Helper()
	c := &customer.Customer{Name: "Ada"}
	if err := s.customers.Create(t.Context(), s.who, c); err != nil {
		t.Fatal(err)
	}
	return c.ID
}

func (s *shop) product(t *testing.T, kind string) string {
	t.Helper()
	p := s.products.Blank()
	p.Name, p.Type, p.PriceCents, p.Currency = "Sailing", kind, 4900, "EUR"
	if err := s.products.Create(t.Context(), s.who, p); err != nil {
		t.Fatal(err)
	}
	return p.ID
}

func (s *shop) order(t *testing.T, customer, product string) *order.Order {
	t.Helper()
	o := s.orders.Store().Blank()
	o.CustomerID, o.ProductID = &customer, &product
	if err := s.orders.Store().Create(t.Context(), s.who, o); err != nil {
		t.Fatal(err)
	}
	return o
}

func (s *shop) move(ctx context.Context, id, action, body string) error {
	_, err := s.orders.Store().Move(ctx, s.who, id, action, jsontext.Value(body))
	return err
}

func (s *shop) enrolled(t *testing.T) []string {
	t.Helper()
	all, err := s.enrollments.Store().List(t.Context(), s.who.TenantID, resource.Find{Limit: 100, Asc: true})
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, e := range all {
		states = append(states, e.Status)
	}
	return states
}

func (s *shop) analytics(t *testing.T) sales.Analytics {
	t.Helper()
	got, err := s.sales.Analytics(t.Context(), s.who.TenantID)
	if err != nil {
		t.Fatal(err)
	}
	return *got
}

func TestOrders(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		resourcetest.Kind(t, resourcesql.New(db), db, func(deps resource.Deps) *resource.Store[order.Order] {
			deps.Counters = resourcesql.NewCounters(db)
			anything := func(txn.Tx, string, string) error { return nil }
			return order.New(deps, order.Options{
				Clock: clock.System{}, Counters: deps.Counters, Customer: anything,
				Enrollments: enrollment.New(deps, enrollment.Options{Clock: clock.System{}, Customer: anything, Product: anything}),
				Product: func(_ txn.Tx, _, id string) (*product.Product, error) {
					return &product.Product{Type: product.Course, PriceCents: 4900, Currency: "EUR"}, nil
				},
			}).Store()
		}, resourcetest.Samples{
			Minimal: `{"amount_cents":%d,"currency":"eur"}`,
			Defaults: map[string]string{
				"status": `"pending"`, "currency": `"EUR"`, "customer_id": `null`, "product_id": `null`, "paid_at": `null`, "metadata": `{}`,
				"payment_intent_id": `""`,
			},
			Full: `{"amount_cents":100,"currency":"USD","customer_id":"` + ident.New() + `","product_id":"` + ident.New() + `",
				"payment_intent_id":"pi_%d","metadata":{"a":1}}`,
			Refused: []resourcetest.Refused{
				{Body: `{}`, Fields: []string{"amount_cents", "currency"}},
				{Body: `{"amount_cents":-1,"currency":"euros","metadata":[]}`, Fields: []string{"amount_cents", "currency", "metadata"}},
			},
		})
	})
}

// An order takes price and currency of its product; paying it enrols the customer,
// refunding it ends that; and the figures follow.
func TestOrderOfACourse(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := newShop(db)
		ada, course, boat := s.customer(t), s.product(t, product.Course), s.product(t, "digital")
		first, second, third := s.order(t, ada, course), s.order(t, ada, course), s.order(t, ada, boat)
		if *first.AmountCents != 4900 || first.Currency != "EUR" || first.Status != "pending" || first.PaidAt != nil {
			t.Errorf("a new order: %+v", first)
		}
		for id, body := range map[string]string{first.ID: `{"payment_intent_id":"pi_1"}`, second.ID: ``, third.ID: `{}`} {
			if err := s.move(t.Context(), id, "pay", body); err != nil {
				t.Fatal(err)
			}
		}
		if paid, err := s.orders.Store().Get(t.Context(), s.who.TenantID, first.ID); err != nil || paid.PaidAt == nil || paid.PaymentIntentID != "pi_1" {
			t.Errorf("paid: %+v, %v", paid, err)
		}
		if err := s.move(t.Context(), second.ID, "refund", ``); err != nil {
			t.Fatal(err)
		}
		if err := s.move(t.Context(), second.ID, "pay", ``); !fault.Is(err, fault.Conflict) {
			t.Errorf("paying what was refunded: %v", err)
		}
		if got := strings.Join(s.enrolled(t), " "); got != "active cancelled" && got != "cancelled active" {
			t.Errorf("enrolled: %s", got)
		}
		want := sales.Analytics{
			Customers: 1, Products: 2, Orders: 3, PaidOrders: 2, Revenue: 9800, RevenueByCurrency: map[string]int64{"EUR": 9800}, ActiveEnrollments: 1,
		}
		if diff := cmp.Diff(want, s.analytics(t), cmp.AllowUnexported(sales.Analytics{})); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOrdersThatAreRefused(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, other := newShop(db), newShop(db)
		ada, course := s.customer(t), s.product(t, product.Course)
		if _, err := s.products.Update(t.Context(), s.who, course, func(_ txn.Tx, p *product.Product) error {
			p.Status = product.Archived
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for name, test := range map[string]struct {
			customer, product string
			kind              fault.Kind
		}{
			"archived":         {ada, course, fault.Invalid},
			"foreign customer": {other.customer(t), "", fault.NotFound},
			"foreign product":  {ada, other.product(t, product.Course), fault.NotFound},
			"no such product":  {ada, "x", fault.NotFound},
		} {
			o := s.orders.Store().Blank()
			o.CustomerID, o.ProductID = &test.customer, &test.product
			if err := s.orders.Store().Create(t.Context(), s.who, o); !fault.Is(err, test.kind) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := s.analytics(t); got.Orders != 0 {
			t.Errorf("refused orders are counted: %+v", got)
		}
	})
}

// Of many payments of one order at once one counts.
func TestPaidAtOnce(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := newShop(db)
		o := s.order(t, s.customer(t), s.product(t, product.Subscription))
		var all sync.WaitGroup
		results := make([]error, 8)
		for i := range results {
			all.Go(func() { results[i] = s.move(t.Context(), o.ID, "pay", ``) })
		}
		all.Wait()
		var done int
		for _, err := range results {
			if err == nil {
				done++
			} else if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.Conflict {
				t.Error(err)
			}
		}
		if got := s.analytics(t); done != 1 || got.Revenue != 4900 || got.ActiveEnrollments != 1 {
			t.Errorf("%d payments count: %+v", done, got)
		}
	})
}

// A customer or product that is deleted before an order of it is paid is no obstacle.
func TestPaymentOfSomethingGone(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := newShop(db)
		ada, course := s.customer(t), s.product(t, product.Course)
		first, second := s.order(t, ada, course), s.order(t, ada, s.product(t, product.Course))
		if err := errors.Join(s.products.Delete(t.Context(), s.who, course), s.customers.Delete(t.Context(), s.who, ada),
			s.move(t.Context(), first.ID, "pay", ``), s.move(t.Context(), second.ID, "pay", ``)); err != nil {
			t.Fatal(err)
		}
		if got := s.analytics(t); got.PaidOrders != 2 || got.ActiveEnrollments != 0 || got.Customers != 0 || got.Products != 1 {
			t.Errorf("%+v", got)
		}
	})
}
