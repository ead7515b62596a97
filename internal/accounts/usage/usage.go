// Package usage counts what tenants use, enforces their plans and budgets, and
// reports how much is left. It implements quota.Meter, quota.Gate and
// quota.Proxy.
//
// # Accuracy
//
// Usage is recorded in the transaction that consumes it, so that counters are
// correct across crashes and nodes. For a tenant without limits the transaction
// appends entries, which the aggregator adds to the counters later and which all
// reports include, so that transactions do not wait for one another. For a tenant
// with limits it adds to the counters itself: runs and things are refused in that
// same transaction, so a limit is never exceeded. Model and tool calls are checked
// before the call, when its usage is not known: calls in progress when a limit is
// reached exceed it, and so do calls that other nodes start within a second.
//
// # Lock order
//
// A transaction that counts locks the tenant's counters last; after that it only
// adds rows of its own. The aggregator locks counters of several tenants, in the
// order of their ids. This is why people are notified of a threshold by work
// that the transaction enqueues, and not in the transaction.
package usage

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
)

// Totals are a tenant's usage in a period, of everything that can be limited.
type Totals struct {
	Runs, Tokens, ToolCalls, CostNano int64
}

// Plus adds totals.
func (t Totals) Plus(o Totals) Totals {
	return Totals{t.Runs + o.Runs, t.Tokens + o.Tokens, t.ToolCalls + o.ToolCalls, t.CostNano + o.CostNano}
}

// Terms decide how much a tenant may use.
type Terms struct {
	Plan   string  // empty if there is no such tenant
	Budget *Budget // nil: none
	// PastDue reports whether a payment of the tenant failed, so that nothing more is run.
	PastDue bool
}

// Row is a tenant's usage with the same model, source and key, or on the same
// day, depending on the query.
type Row struct {
	Day string // 2026-09-10
	quota.Use
}

// Query selects rows. From and To are days, both included.
type Query struct {
	From, To string
	AgentID  string // empty: all agents
	ByDay    bool   // group by day instead of by model, source and key
}

// Store is the port to the tables. tx may be nil where a method also has ctx.
type Store interface {
	// GetTerms reads the plan and the budget.
	GetTerms(ctx context.Context, tx txn.Tx, tenant string) (Terms, error)
	// IncrementTx adds uses to the totals of a month and a day, and returns these
	// totals. It locks the tenant's counters until commit.
	IncrementTx(tx txn.Tx, tenant string, month, day string, uses []quota.Use) (m, d Totals, err error)
	// AppendTx records uses of a day without a lock. All methods that return usage
	// include them.
	AppendTx(tx txn.Tx, tenant, day string, uses []quota.Use) error
	// SettleTx moves up to limit records of AppendTx, of all tenants, to the
	// counters, and returns how many. Several nodes may do it at the same time.
	SettleTx(tx txn.Tx, limit int) (int, error)
	// IncrementRequestsTx adds to the requests of periods, which ListTotals
	// returns as Runs.
	IncrementRequestsTx(tx txn.Tx, tenant string, requests map[string]int64) error
	ListTotals(ctx context.Context, tenant string, periods ...string) ([]Totals, error)
	// GetSpent returns the cost of some days in billionths of a dollar.
	GetSpent(ctx context.Context, tx txn.Tx, tenant, from, to string) (int64, error)
	ListRows(ctx context.Context, tenant string, q Query) ([]Row, error)
	// ListParts returns what agents used, not what was used outside of them.
	ListParts(ctx context.Context, tenant string, q PartQuery) ([]PartRow, error)
	// ListAgentUses returns what agents used on some days, by agent.
	ListAgentUses(ctx context.Context, tenant string, days, agents []string) (map[string]quota.Use, error)
	// ListDurations returns how long runs took that ended, by agent or all together, on
	// each day; the keys of the query are not looked at. Those that ended in the last
	// seconds may be missing.
	ListDurations(ctx context.Context, tenant string, q PartQuery) ([]DurationRow, error)

	// ListPlatformUses returns the agents of all tenants with the most runs. Like the
	// next two it is for the operator, and may miss the last seconds.
	ListPlatformUses(ctx context.Context, from, to string, limit int) ([]PlatformRow, error)
	// GetPlatformUse returns what all agents used.
	GetPlatformUse(ctx context.Context, from, to string) (quota.Use, error)
	GetPlatformTotals(ctx context.Context) (PlatformTotals, error)

	// GetStoredBytes returns the size of the tenant's files.
	GetStoredBytes(ctx context.Context, tenant string) (int64, error)

	// LockTx makes others who lock the same resource wait for the commit.
	LockTx(tx txn.Tx, tenant string, r quota.Resource) error
	// CountHeld counts things, up to limit. ok is false for a resource that is not
	// counted yet.
	CountHeld(ctx context.Context, tx txn.Tx, tenant string, r quota.Resource, now time.Time, limit int64) (n int64, ok bool, err error)

	// CreateEventTx adds an event unless there is one for the same mark, and
	// reports whether it did.
	CreateEventTx(tx txn.Tx, e Event) (bool, error)
	// GetEvent reads one. Errors: fault.NotFound.
	GetEvent(ctx context.Context, tenant, id string) (Event, error)

	// LockBudgetTx reads the budget, nil if there is none, and locks it.
	LockBudgetTx(tx txn.Tx, tenant string) (*Budget, error)
	PutBudgetTx(tx txn.Tx, tenant string, b Budget) error
	DeleteBudgetTx(tx txn.Tx, tenant string) error // no error if there is none
	UpdateOverageTx(tx txn.Tx, tenant string, on bool) error
}

// Deps are the dependencies of a Service.
type Deps struct {
	Plans  *quota.Plans
	Store  Store
	Writer txn.Writer
	Clock  clock.Clock
	Logger *slog.Logger
	Outbox resource.Outbox // receives events; see EventKind
	Audit  audit.Recorder  // records changes of budgets; nil: not recorded
}

// Service assembles the slice. It is safe for concurrent use.
type Service struct {
	*meter
	*proxyMeter
	*aggregator

	allPlans *quota.Plans
	tenants  *tenantCache
	budgets  budgets
	reports  reports
}

var (
	_ quota.Meter = (*Service)(nil)
	_ quota.Gate  = (*Service)(nil)
	_ quota.Proxy = (*Service)(nil)
)

// New returns a service.
func New(d Deps) *Service {
	tenants := &tenantCache{plans: d.Plans, store: d.Store, shop: &shop{}, clock: d.Clock, logger: d.Logger, states: newStates()}
	sums := &aggregator{store: d.Store, writer: d.Writer, logger: d.Logger, some: make(chan struct{}, 1)}
	counts := &meter{
		appended: sums.wake, tenants: tenants, store: d.Store, writer: d.Writer, clock: d.Clock, logger: d.Logger, outbox: d.Outbox,
	}
	proxy := &proxyMeter{
		tenants: tenants, meter: counts, store: d.Store, writer: d.Writer, clock: d.Clock, logger: d.Logger,
		pending: pendingUses{some: make(chan struct{}, 1)},
	}
	return &Service{
		meter: counts, proxyMeter: proxy, aggregator: sums, allPlans: d.Plans, tenants: tenants,
		budgets: budgets{tenants: tenants, store: d.Store, writer: d.Writer, clock: d.Clock, audit: d.Audit},
		reports: reports{tenants: tenants, meter: counts, proxy: proxy, plans: d.Plans, shop: tenants.shop, store: d.Store, clock: d.Clock},
	}
}

// Event reads an event. Errors: fault.NotFound.
func (s *Service) Event(ctx context.Context, tenant, id string) (Event, error) {
	return s.meter.store.GetEvent(ctx, tenant, id)
}

// UsageOf returns what a tenant used in a month, YYYY-MM; "" is the current one.
// Errors: fault.Invalid for an invalid month.
func (s *Service) UsageOf(ctx context.Context, tenant, month string) (Summary, error) {
	return s.reports.month(ctx, tenant, month)
}

// shop is where companies buy plans.
type shop struct{ has func(plan string) bool }

func (s *shop) sells(plan string) bool { return s.has != nil && s.has(plan) }

// SellBy completes the service with what reports whether a plan can be bought. Without it
// none can.
func (s *Service) SellBy(has func(plan string) bool) { s.reports.shop.has = has }

// PlanKnown reports whether the operator has configured a plan.
func (s *Service) PlanKnown(id string) bool { return s.allPlans.Known(id) }

// Plans lists the operator's plans.
func (s *Service) Plans() []quota.Plan { return s.allPlans.All() }

// PlanOf returns the plan in effect for a tenant.
func (s *Service) PlanOf(ctx context.Context, tenant string) (quota.Plan, error) {
	return s.tenants.planOf(ctx, tenant)
}

// TermsChanged makes a change of a tenant's plan or budget, which this process
// has just committed, effective immediately; other nodes see it within a second.
func (s *Service) TermsChanged(tenant string) { s.tenants.termsChanged(tenant) }

const (
	monthForm = "2006-01"
	dayForm   = "2006-01-02"
)

func monthOf(t time.Time) string { return t.UTC().Format(monthForm) }
func dayOf(t time.Time) string   { return t.UTC().Format(dayForm) }
