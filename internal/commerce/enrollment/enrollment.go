// Package enrollment stores which customers take part in which courses and
// subscriptions.
package enrollment

import (
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/ptr"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// The states of an enrollment.
const (
	active    = "active"
	paused    = "paused"
	completed = "completed"
	cancelled = "cancelled"
)

// Enrollment is a customer's part in a product.
type Enrollment struct {
	resource.Meta `json:"-"`

	CustomerID  string        `json:"customer_id" required:"true" ref:"customer" maxLength:"36" doc:"Who takes part."`
	ProductID   string        `json:"product_id" required:"true" ref:"product" maxLength:"36" doc:"What the customer takes part in."`
	OrderID     *string       `json:"order_id" readOnly:"true" doc:"The paid order that made it; null: none did."`
	Status      string        `json:"status" readOnly:"true" enum:"active,paused,completed,cancelled"`
	StartedAt   time.Time     `json:"started_at" readOnly:"true"`
	CompletedAt *time.Time    `json:"completed_at" readOnly:"true" doc:"null until it is completed."`
	Metadata    schema.Object `json:"metadata" merge:"1" doc:"Data of your own, kept and shown as it is sent; a change merges it one level deep."`
}

// Options are what enrollments need of others.
type Options struct {
	Clock clock.Clock
	// Customer and Product report whether a company has one. Errors: fault.NotFound.
	Customer, Product func(tx txn.Tx, tenant, id string) error
}

// Enrollments keeps the enrollments of all companies.
type Enrollments struct {
	store *resource.Store[Enrollment]
}

// New returns the enrollments.
func New(deps resource.Deps, o Options) *Enrollments {
	return &Enrollments{resource.NewStore(o.kind(), deps)}
}

// Store returns what keeps them.
func (e *Enrollments) Store() *resource.Store[Enrollment] { return e.store }

// Routes returns the operations on enrollments.
func (e *Enrollments) Routes() []route.Route { return resource.Routes(e.store) }

func (o Options) kind() resource.Kind[Enrollment] {
	return resource.Kind[Enrollment]{
		Name: "enrollment", Noun: "CommerceEnrollment", Path: "/api/v1/commerce/enrollments", IDField: "id", Tag: "Commerce",
		Keys:     []string{"enrollments"},
		Counted:  true,
		PageSize: 50, MaxPageSize: 200,
		Readers: resource.Access{Scopes: []authz.Scope{"billing:read"}},
		Writers: resource.Access{Role: authz.Admin},
		Omit:    []resource.Op{resource.OpPatch, resource.OpDelete},
		Indexes: []resource.Index[Enrollment]{
			{
				Name: "status", Doc: "Only enrollments in this state: active, paused, completed or cancelled.",
				Of: func(e *Enrollment) string { return e.Status },
			},
			{Name: "customer_id", Doc: "Only enrollments of this customer.", Of: func(e *Enrollment) string { return e.CustomerID }},
			{Name: "product_id", Doc: "Only enrollments in this product.", Of: func(e *Enrollment) string { return e.ProductID }},
			{Name: "order_id", Of: func(e *Enrollment) string { return ptr.Value(e.OrderID) }},
		},
		Filters: []string{"status", "customer_id", "product_id"},
		Default: func(e *Enrollment) { e.Status = active },
		State:   func(e *Enrollment) *string { return &e.Status },
		Moves: []resource.Move[Enrollment]{
			{Action: "pause", From: []string{active}, To: paused, Summary: "Pause an enrollment."},
			{Action: "resume", From: []string{paused}, To: active, Summary: "Go on with a paused enrollment."},
			{Action: "complete", From: []string{active, paused}, To: completed, Summary: "Complete an enrollment."},
			{Action: "cancel", From: []string{active, paused}, To: cancelled, Summary: "Cancel an enrollment."},
		},
		Events: []resource.EventType{
			{Name: "enrollment.created", Doc: "A customer was enrolled.", Actions: []string{resource.Created}},
			{Name: "enrollment.completed", Doc: "An enrollment was completed.", Actions: []string{"complete"}},
			{Name: "enrollment.cancelled", Doc: "An enrollment was cancelled.", Actions: []string{"cancel"}},
		},
		Before: o.before,
	}
}

func (o Options) before(e *resource.Edit[Enrollment]) error {
	switch e.Action {
	case resource.Created:
		e.New.StartedAt = o.Clock.Now()
		if err := o.Customer(e.Tx, e.Who.TenantID, e.New.CustomerID); err != nil {
			return err
		}
		return o.Product(e.Tx, e.Who.TenantID, e.New.ProductID)
	case "complete":
		now := o.Clock.Now()
		e.New.CompletedAt = &now
	}
	return nil
}

// StartTx enrols the customer of a paid order.
func (e *Enrollments) StartTx(tx txn.Tx, who authz.Caller, customer, product, order string) error {
	made := e.store.Blank()
	made.CustomerID, made.ProductID, made.OrderID = customer, product, &order
	return e.store.CreateTx(tx, who, made)
}

// EndOfOrderTx cancels what an order that is refunded made, unless it is over.
func (e *Enrollments) EndOfOrderTx(tx txn.Tx, who authz.Caller, order string) error {
	made, err := e.store.ListTx(tx, who.TenantID, resource.Find{Where: map[string]string{"order_id": order}, Limit: 1})
	if err != nil || len(made) == 0 || made[0].Status != active && made[0].Status != paused {
		return err
	}
	_, err = e.store.MoveTx(tx, who, made[0].ID, "cancel", nil)
	return err
}
