// Package usage counts what tenants use, holds them to their plans and budgets,
// and tells them how much there is left (behaviours.md section 30). It is the
// quota.Meter and quota.Gate of the platform.
//
// # Exactness
//
// Use is counted in the transaction that uses it up, so that counters agree
// with what happened, over crashes and over nodes. Runs and things are refused
// in that same transaction, so that there is never one too many. Whether a model
// or a tool may be called is asked before the call, when what the call will use
// is not known: calls that are under way when a limit is reached go beyond it,
// and so do those that other nodes begin within a second of that.
//
// # Order of locks
//
// A transaction that counts locks the tenant's counters last; what then
// follows only adds rows of its own. So people are told of a mark that was passed
// by work that the transaction leaves, not in it.
package usage

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/base/cache"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
)

// Totals are what a tenant used in a period, as far as there are limits.
type Totals struct {
	Runs, Tokens, ToolCalls, CostNano int64
}

// Terms are what decides how much a tenant may use.
type Terms struct {
	Plan   string  // "" where there is no such tenant
	Budget *Budget // nil: none
}

// Row is a part of what a tenant used: what has the same model, source and key,
// or the same day, as the query asks.
type Row struct {
	Day string // 2026-09-10
	quota.Use
}

// Query asks for rows. From and To are days, both included.
type Query struct {
	From, To string
	AgentID  string // "": of all
	ByDay    bool   // by day, and not by model, source and key
}

// Store is the port to the tables. Every call takes the tenant.
type Store interface {
	// GetTerms reads the plan and the budget, in tx where there is one.
	GetTerms(ctx context.Context, tx txn.Tx, tenant string) (Terms, error)
	// IncrementTx counts uses in the totals of a month and a day, and gives these where
	// they are wanted. It holds the tenant's counters until commit.
	IncrementTx(tx txn.Tx, tenant string, month, day string, uses []quota.Use, want bool) (m, d Totals, err error)
	// IncrementRequestsTx adds to the requests of periods, which Totals gives as Runs.
	IncrementRequestsTx(tx txn.Tx, tenant string, requests map[string]int64) error
	ListTotals(ctx context.Context, tenant string, periods ...string) ([]Totals, error)
	// GetSpent is the cost of some days in billionths of a dollar, in tx where
	// there is one.
	GetSpent(ctx context.Context, tx txn.Tx, tenant, from, to string) (int64, error)
	ListRows(ctx context.Context, tenant string, q Query) ([]Row, error)
	// GetStoredBytes is what the tenant's files take.
	GetStoredBytes(ctx context.Context, tenant string) (int64, error)

	// LockTx has others who lock the same wait for the commit.
	LockTx(tx txn.Tx, tenant string, r quota.Resource) error
	// CountHeld counts things, up to most, in tx where there is one. ok is false for
	// those that nothing counts yet.
	CountHeld(ctx context.Context, tx txn.Tx, tenant string, r quota.Resource, now time.Time, most int64) (n int64, ok bool, err error)

	// CreateEventTx says whether there was none of this kind yet.
	CreateEventTx(tx txn.Tx, e Event) (bool, error)
	// GetEvent reads one. Errors: fault.NotFound.
	GetEvent(ctx context.Context, tenant, id string) (Event, error)

	PutBudgetTx(tx txn.Tx, tenant string, b Budget) error
	DeleteBudgetTx(tx txn.Tx, tenant string) error // also where there is none
}

// Deps is what a Service is made of.
type Deps struct {
	Plans  *quota.Plans
	Store  Store
	Writer txn.Writer
	Clock  clock.Clock
	Logger *slog.Logger
	Outbox resource.Outbox // is told of events; see EventKind
	Audit  audit.Recorder  // nil: nobody is told of changes of budgets
}

// Service is the slice. It is safe for concurrent use.
type Service struct {
	Deps
	known    *cache.Cache[string, *standing] // by tenant
	gathered gathered
}

var (
	_ quota.Meter = (*Service)(nil)
	_ quota.Gate  = (*Service)(nil)
)

// knownTenants bounds of how many tenants this process remembers where they
// stand.
const knownTenants = 50_000

// New makes a service.
func New(d Deps) *Service {
	return &Service{Deps: d, gathered: gathered{some: make(chan struct{}, 1)}, known: cache.New(cache.Options[string, *standing]{Most: knownTenants})}
}

// PlanKnown says whether the operator has a plan.
func (s *Service) PlanKnown(id string) bool { return s.Deps.Plans.Known(id) }

// Plans lists the operator's plans.
func (s *Service) Plans() []quota.Plan { return s.Deps.Plans.All() }

// PlanOf gives the plan that holds for a tenant, with the name of whatever is
// stored of it.
func (s *Service) PlanOf(ctx context.Context, tenant string) (quota.Plan, error) {
	st, err := s.standing(ctx, tenant)
	return st.plan, err
}

// TermsChanged has the next question see a plan or budget that was just
// changed by this process; others see it within a second.
func (s *Service) TermsChanged(tenant string) {
	if st, ok := s.known.Get(tenant); ok {
		st.expire()
	}
}

const (
	monthForm = "2006-01"
	dayForm   = "2006-01-02"
)

func monthOf(t time.Time) string { return t.UTC().Format(monthForm) }
func dayOf(t time.Time) string   { return t.UTC().Format(dayForm) }
