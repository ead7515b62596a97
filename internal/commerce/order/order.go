// Package order stores what customers order, and what becomes of it.
package order

import (
	"cmp"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/commerce/product"
	"agentd/internal/kernel/resource"
)

// The states of an order.
const (
	pending  = "pending"
	paid     = "paid"
	failed   = "failed"
	refunded = "refunded"
)

// Revenue is the prefix of the counters of what paid orders brought, by currency, in
// its smallest unit.
const Revenue = "revenue:"

// Order is a customer's order of a product.
type Order struct {
	resource.Meta `json:"-"`

	CustomerID      *string       `json:"customer_id" ref:"customer" maxLength:"36" doc:"Who orders; null: unknown. An order without a customer enrols no one."`
	ProductID       *string       `json:"product_id" ref:"product" maxLength:"36" doc:"What is ordered; null: something that is not a product here."`
	AmountCents     *int64        `json:"amount_cents" minimum:"0" maximum:"1000000000000" doc:"In the smallest unit of the currency. Default: the product's price."`
	Currency        string        `json:"currency" pattern:"^([A-Za-z]{3})?$" doc:"Three letters by ISO 4217, such as EUR; kept in capitals. Default: that of the product."`
	Status          string        `json:"status" readOnly:"true" enum:"pending,paid,failed,refunded"`
	PaymentIntentID string        `json:"payment_intent_id" maxLength:"200" doc:"The id of the payment at its provider."`
	PaidAt          *time.Time    `json:"paid_at" readOnly:"true" doc:"null until it is paid."`
	Metadata        schema.Object `json:"metadata" merge:"1" doc:"Data of your own, kept and shown as it is sent; a change merges it one level deep."`
}

// Enrollments is the port to what paid orders make.
type Enrollments interface {
	StartTx(tx txn.Tx, who authz.Caller, customer, product, order string) error
	EndOfOrderTx(tx txn.Tx, who authz.Caller, order string) error
}

// Options are what orders need of others.
type Options struct {
	Clock       clock.Clock
	Counters    resource.Counters
	Enrollments Enrollments
	// Customer reports whether a company has one. Errors: fault.NotFound.
	Customer func(tx txn.Tx, tenant, id string) error
	// Product reads one. Errors: fault.NotFound.
	Product func(tx txn.Tx, tenant, id string) (*product.Product, error)
}

// Orders keeps the orders of all companies.
type Orders struct {
	store *resource.Store[Order]
}

// New returns the orders.
func New(deps resource.Deps, o Options) *Orders { return &Orders{resource.NewStore(o.kind(), deps)} }

// Store returns what keeps them.
func (o *Orders) Store() *resource.Store[Order] { return o.store }

// Routes returns the operations on orders.
func (o *Orders) Routes() []route.Route { return resource.Routes(o.store) }

type payIn struct {
	_ struct{} `json:"-" name:"OrderPay"`

	PaymentIntentID string `json:"payment_intent_id" maxLength:"200" doc:"The id of the payment at its provider. Default: what the order has."`
}

func pay(e *resource.Edit[Order], in *payIn) error {
	e.New.PaymentIntentID = cmp.Or(in.PaymentIntentID, e.New.PaymentIntentID)
	return nil
}

func (o Options) kind() resource.Kind[Order] {
	return resource.Kind[Order]{
		Name: "order", Noun: "CommerceOrder", Path: "/api/v1/commerce/orders", IDField: "id", Tag: "Commerce",
		Keys:     []string{"orders"},
		Counted:  true,
		Example:  `{"amount_cents":4900,"currency":"EUR","payment_intent_id":"pi_1"}`,
		PageSize: 50, MaxPageSize: 200,
		Readers: resource.Access{Scopes: []authz.Scope{"billing:read"}},
		Writers: resource.Access{Role: authz.Admin},
		Omit:    []resource.Op{resource.OpPatch, resource.OpDelete},
		Indexes: []resource.Index[Order]{
			{
				Name: "status", Doc: "Only orders in this state: pending, paid, failed or refunded.",
				Of: func(o *Order) string { return o.Status },
			},
			{Name: "customer_id", Doc: "Only orders of this customer.", Of: func(o *Order) string { return ptr.Value(o.CustomerID) }},
			{Name: "product_id", Doc: "Only orders of this product.", Of: func(o *Order) string { return ptr.Value(o.ProductID) }},
		},
		Filters: []string{"status", "customer_id", "product_id"},
		Default: func(o *Order) { o.Status = pending },
		State:   func(o *Order) *string { return &o.Status },
		Moves: []resource.Move[Order]{
			{
				Action: "pay", From: []string{pending}, To: paid, With: resource.Doing(pay),
				Summary: "Note that an order is paid, and enrol its customer if its product is a course or a subscription.",
			},
			{Action: "fail", From: []string{pending}, To: failed, Summary: "Note that the payment of an order failed."},
			{Action: "refund", From: []string{paid}, To: refunded, Summary: "Note that an order was refunded, and cancel its enrollment."},
		},
		Events: []resource.EventType{
			{Name: "order.created", Doc: "A customer ordered something.", Actions: []string{resource.Created}},
			{Name: "order.paid", Doc: "An order was paid.", Actions: []string{"pay"}},
			{Name: "order.failed", Doc: "The payment of an order failed.", Actions: []string{"fail"}},
			{Name: "order.refunded", Doc: "An order was refunded.", Actions: []string{"refund"}},
		},
		Before: o.before,
		After:  o.after,
	}
}

// before completes a new order from its product, and dates the payment.
func (o Options) before(e *resource.Edit[Order]) error {
	switch e.Action {
	case resource.Created:
		return o.complete(e)
	case "pay":
		now := o.Clock.Now()
		e.New.PaidAt = &now
	}
	return nil
}

func (o Options) complete(e *resource.Edit[Order]) error {
	if id := ptr.Value(e.New.CustomerID); id != "" {
		if err := o.Customer(e.Tx, e.Who.TenantID, id); err != nil {
			return err
		}
	}
	if id := ptr.Value(e.New.ProductID); id != "" {
		p, err := o.Product(e.Tx, e.Who.TenantID, id)
		if err != nil {
			return err
		}
		if p.Status == product.Archived {
			return fault.BadFields(fault.Field{Field: "product_id", Message: "the product is archived; make it active to sell it again"})
		}
		e.New.Currency = cmp.Or(e.New.Currency, p.Currency)
		if e.New.AmountCents == nil {
			e.New.AmountCents = &p.PriceCents
		}
	}
	e.New.Currency = strings.ToUpper(e.New.Currency)
	var missing []fault.Field
	if e.New.AmountCents == nil {
		missing = append(missing, fault.Field{Field: "amount_cents", Message: "required unless product_id names a product"})
	}
	if e.New.Currency == "" {
		missing = append(missing, fault.Field{Field: "currency", Message: "required unless product_id names a product"})
	}
	if missing != nil {
		return fault.BadFields(missing...)
	}
	return nil
}

// after counts what an order brings, and begins or ends what it stands for.
func (o Options) after(e *resource.Edit[Order]) error {
	switch e.Action {
	case "pay":
		if err := o.Counters.IncrementTx(e.Tx, e.Who.TenantID, Revenue+e.New.Currency, *e.New.AmountCents); err != nil {
			return err
		}
		return o.enrol(e)
	case "refund":
		if err := o.Counters.IncrementTx(e.Tx, e.Who.TenantID, Revenue+e.New.Currency, -*e.New.AmountCents); err != nil {
			return err
		}
		return o.Enrollments.EndOfOrderTx(e.Tx, e.Who, e.New.ID)
	}
	return nil
}

// enrol makes the enrollment of a paid order. A product or customer that was deleted
// since has none.
func (o Options) enrol(e *resource.Edit[Order]) error {
	customer, id := ptr.Value(e.New.CustomerID), ptr.Value(e.New.ProductID)
	if customer == "" || id == "" {
		return nil
	}
	p, err := o.Product(e.Tx, e.Who.TenantID, id)
	if err == nil && (p.Type == product.Course || p.Type == product.Subscription) {
		if err = o.Customer(e.Tx, e.Who.TenantID, customer); err == nil {
			return o.Enrollments.StartTx(e.Tx, e.Who, customer, id, e.New.ID)
		}
	}
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
