// Package billing lets companies pay for their plans by Stripe: they check out and manage
// their subscription on pages of Stripe, and Stripe's events decide which plan a company is
// on and whether it may go on.
//
// Events come late, twice and in any order. An event is applied once, by its id, in one
// transaction with what it changes. It changes the plan only if no newer event has, and
// likewise whether payments are overdue; see [Account.apply].
package billing

import (
	"context"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
	"agentd/internal/operation/setting"
)

// Status is what becomes of a company's subscription.
type Status string

// The statuses. A company that never subscribed has None, one whose subscription ended
// Cancelled: both are on the default plan, or one that the operator assigned.
const (
	None      Status = ""
	Active    Status = "active"
	PastDue   Status = "past_due"
	Cancelled Status = "cancelled"
)

// Account is what is stored of a company's subscription.
type Account struct {
	TenantID       string
	CustomerID     string // Stripe's; "": none yet
	SubscriptionID string
	Status         Status
	Plan           string    // that it pays for; "": none
	TrialEnds      time.Time // zero: no trial
	PlanAt         time.Time // of the event that set Plan
	StatusAt       time.Time // of the event that set Status
}

// Store is the port to accounts and to the events that were applied.
type Store interface {
	// Get returns the account of a tenant; one with nothing but its tenant if it has
	// none.
	Get(ctx context.Context, tenant string) (Account, error)
	// LockTx is Get, and locks the tenant until commit. found is false where there is no
	// such tenant.
	LockTx(tx txn.Tx, tenant string) (a Account, found bool, err error)
	// GetTenantTx returns the tenant of a customer of Stripe; "" if there is none.
	GetTenantTx(tx txn.Tx, customer string) (string, error)
	// PutTx stores an account, and for its tenant whether payments are overdue, and the
	// plan, unless that is "".
	PutTx(tx txn.Tx, a *Account, plan string) error
	// ClaimEventTx stores that an event is applied, and reports whether it was not before.
	// Events that were applied before a time are forgotten.
	ClaimEventTx(tx txn.Tx, id string, at, forget time.Time) (bool, error)
}

// Session is a page of Stripe.
type Session struct {
	TenantID, Plan, Price string
	CustomerID            string // "": Stripe makes one
	TrialDays             int64
	SuccessURL, CancelURL string
}

// NewPrice is a price that Stripe does not have yet.
type NewPrice struct {
	Plan, Product string // the id of the plan, and what customers read on invoices
	Amount        int64  // in the smallest unit of Currency
	Currency      string // three lower-case letters
	Interval      string // month or year
}

// Gateway is the port to Stripe's API. Errors: Upstream, UpstreamTimeout.
type Gateway interface {
	// Checkout returns the URL of a page on which a plan is bought.
	Checkout(ctx context.Context, key string, s Session) (string, error)
	// Portal returns the URL of a page on which a customer manages the subscription.
	Portal(ctx context.Context, key, customer, returnURL string) (string, error)
	// CreatePrice makes a product of a price that recurs, and returns Stripe's ids of both.
	CreatePrice(ctx context.Context, key string, p NewPrice) (price, product string, err error)
	// Account returns the account of a key, and whether it is for real payments.
	Account(ctx context.Context, key string) (id string, live bool, err error)
}

// Settings are the operator's for Stripe.
type Settings struct {
	_ struct{} `json:"-" name:"StripeSettings"`

	Enabled       bool              `json:"enabled" doc:"Whether companies can pay for plans. Default: whether a secret key is configured."`
	SecretKey     secret.String     `json:"secret_key,omitzero" doc:"Stripe's secret key. Never shown."`
	WebhookSecret secret.String     `json:"webhook_secret,omitzero" doc:"Secret with which Stripe signs events. Never shown."`
	Prices        map[string]string `json:"prices,omitzero" doc:"Stripe's price of each plan that can be bought, by the id of the plan: {\"pro\": \"price_1Pk\"}."`
	TrialDays     int64             `json:"trial_days" minimum:"0" maximum:"730" doc:"Days that a first subscription is free. Default: 0."`
}

func (s *Settings) configured() bool { return s.Enabled && s.SecretKey.Reveal() != "" }

// planOf returns the plan of a price; "" if no plan has it.
func (s *Settings) planOf(price string) string {
	for plan, own := range s.Prices {
		if own == price {
			return plan
		}
	}
	return ""
}

// section is the name of the settings.
const section = "stripe"

// Section adds the settings of Stripe to those of the operator.
func Section(all *setting.Service, initial Settings, plans *quota.Plans) *setting.Section[Settings] {
	return setting.Add(all, &setting.Section[Settings]{
		Name: section, Secret: true, Initial: initial, Check: func(s *Settings) error {
			var wrong []fault.Field
			for plan, price := range s.Prices {
				switch {
				case !plans.Known(plan):
					wrong = append(wrong, fault.Field{Field: "prices." + plan, Message: "there is no such plan; there are " + plans.Names()})
				case price == "" || len(price) > 255:
					wrong = append(wrong, fault.Field{Field: "prices." + plan, Message: "it is no price of Stripe, as price_1PkA2b"})
				}
			}
			if wrong != nil {
				return fault.BadFields(wrong...)
			}
			return nil
		},
	})
}

// Failed is a payment that failed, as it is reported to the company.
type Failed struct {
	TenantID, EventID string
	At                time.Time
	AmountDue         int64 // hundredths of Currency
	Currency          string
	InvoiceURL        string
}

// Invoice is an invoice that Stripe made.
type Invoice = Failed

// Deps are the dependencies of a Service.
type Deps struct {
	Store    Store
	Gateway  Gateway
	Settings *setting.Section[Settings] // nil for the document of operations
	Plans    *quota.Plans
	Writer   txn.Writer
	Clock    clock.Clock
	Audit    audit.Recorder
	// Changed is called on this node after a change of a tenant's plan or of whether its
	// payments are overdue; others see it within a second.
	Changed func(tenant string)
	// OnFailed and OnInvoice are called in the transaction of the event.
	OnFailed  func(tx txn.Tx, f Failed) error
	OnInvoice func(tx txn.Tx, i Invoice) error

	PublicURL func() string
	Origins   []string // of the operator's own pages, which may be returned to
}

// Service bills companies.
type Service struct{ Deps }

// New returns a service.
func New(d Deps) *Service { return &Service{d} }

// errNotConfigured is the answer of all operations without Stripe.
var errNotConfigured = fault.New(fault.Unsupported, "billing_not_configured",
	"Payments are not configured on this deployment. Its operator sets AGENTD_STRIPE_SECRET_KEY, or PUT /api/v1/admin/config/stripe.")

// settings returns the settings. Errors: Unsupported unless Stripe is configured.
func (s *Service) settings() (*Settings, error) {
	set := s.Settings.Get()
	if !set.configured() {
		return nil, errNotConfigured
	}
	return set, nil
}

// HasPrice reports whether a plan can be bought.
func (s *Service) HasPrice(plan string) bool {
	set := s.Settings.Get()
	return set.configured() && set.Prices[plan] != ""
}
