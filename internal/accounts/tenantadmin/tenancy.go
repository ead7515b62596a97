// Package tenancy is what the operator of the platform does with its tenants:
// make them, change them, shut them out and let them in again, and purge them
// with everything that is theirs (behaviours.md section 34; decisions.md D11).
//
// Suspending takes effect at once. Nobody of the tenant is let in, no queued
// run starts, no schedule fires, and a run that is under way stops before its
// next model call and keeps its place. When the tenant is let in again, its runs
// go on where they were.
//
// Purging begins with one commit that makes the tenant invisible. What is its
// own is then deleted in small transactions, as leased work, so that neither a
// crash nor a large tenant is in anybody's way.
package tenantadmin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/work"
)

// Tenant is a tenant as the operator sees it.
type Tenant struct {
	_ struct{} `json:"-" name:"AdminTenant"`

	TenantID         string          `json:"tenant_id" format:"uuid" required:"true"`
	Name             string          `json:"name" required:"true"`
	Slug             string          `json:"slug" required:"true" doc:"Short name, unique on this deployment."`
	Status           identity.Status `json:"status" enum:"active,suspended" required:"true"`
	Plan             string          `json:"plan" required:"true"`
	Quotas           schema.Object   `json:"quotas" required:"true" doc:"The limits of the plan; what is absent or null is not limited."`
	Settings         schema.Object   `json:"settings" required:"true"`
	PurgeProtection  bool            `json:"purge_protection" required:"true" doc:"While it is set the company cannot be purged."`
	SuspensionReason string          `json:"suspension_reason,omitzero"`
	SuspendedAt      *time.Time      `json:"suspended_at,omitzero"`
	PrimaryEmail     string          `json:"primary_email,omitzero" doc:"Of its first owner, where that is known."`
	Operator         bool            `json:"operator,omitzero" doc:"The company that runs the platform. It can be neither suspended nor purged."`
	CreatedAt        time.Time       `json:"created_at" required:"true"`
	UpdatedAt        time.Time       `json:"updated_at" required:"true"`
}

// Filter selects tenants.
type Filter struct {
	Status identity.Status // "": any
	After  string          // behind this tenant, in the order of the list
	Limit  int             // 0: all
}

// Store is the port to tenants and what they have. Tenants that are being
// purged are not there, but for what says otherwise. What is absent is
// identity.ErrNotFound; a slug that is there already is identity.ErrTaken.
type Store interface {
	// List lists tenants, newest first.
	List(ctx context.Context, f Filter) ([]Tenant, error)
	Count(ctx context.Context, status identity.Status) (int, error)
	Get(ctx context.Context, id string) (Tenant, error)
	// LockTx reads a tenant and locks it until the transaction ends.
	LockTx(tx txn.Tx, id string) (Tenant, error)
	// UpdateTx stores what can be changed of a tenant.
	UpdateTx(tx txn.Tx, t Tenant) error
	// ListInactive lists the tenants for which nothing is to be done: suspended
	// ones and those that are being purged.
	ListInactive(ctx context.Context) ([]string, error)

	// SuspendWorkTx lets go of an item of a tenant that is still inactive, until Unpark;
	// of any other tenant's it does nothing and says so.
	SuspendWorkTx(tx txn.Tx, held work.Lease, now time.Time) (parked bool, err error)
	// ResumeWorkTx makes up to so many items due again, and gives how many.
	ResumeWorkTx(tx txn.Tx, tenant, kind string, most int) (int, error)

	// MarkDeletedTx makes a tenant invisible and notes its purge.
	MarkDeletedTx(tx txn.Tx, t Tenant, p Purge) error
	// GetPurge reads a purge that is under way.
	GetPurge(ctx context.Context, id string) (Purge, error)
	// ListParts names everything that tenants have rows of, in an order in which
	// it can be deleted.
	ListParts(ctx context.Context) ([]string, error)
	// CountPart counts a tenant's rows of a part.
	CountPart(ctx context.Context, tenant, part string) (int64, error)
	// DeletePartTx deletes up to so many rows and adds their number to the purge.
	DeletePartTx(tx txn.Tx, tenant, part string, most int) (int, error)
	// DeleteTx deletes a hidden tenant itself, of which nothing is left, and gives
	// what its purge deleted. Done before, it changes nothing.
	DeleteTx(tx txn.Tx, tenant string) (Purge, error)
	// DeletePurgeTx forgets a purge.
	DeletePurgeTx(tx txn.Tx, tenant string) error
}

// Purge is the deletion of a tenant.
type Purge struct {
	TenantID string
	Name     string
	By       authz.Caller // as far as the audit log names it
	At       time.Time
	Counts   jsontext.Value // rows deleted so far, by part: a JSON object
	Told     bool           // the tenant is gone, and the audit log has it
}

// Config is what a Service is made of.
type Config struct {
	DB      txn.Writer
	Store   Store
	Tenants *identity.Tenants
	Audit   *audit.Log
	Queue   work.Queue
	Cursors *page.Cursors
	Clock   clock.Clock
	Log     *slog.Logger

	// RunKind is the kind of work that is held back while a tenant is
	// suspended.
	RunKind string
	// Lease is how long the items of this package are held without a sign of
	// life.
	Lease time.Duration
	// Forget makes a change of a tenant count for credentials that are believed
	// for a moment, on every node. Nil: there is nobody to tell.
	Forget func(tx txn.Tx)
	// Changed tells every node that tenants were suspended or let in; Woke that
	// runs are due again. Nil: there is nobody to tell.
	Changed func()
	Woke    func()
	// LastLook is how long after a purge is looked once more for what a request
	// that was under way wrote meanwhile; 0 is 10 min.
	LastLook time.Duration

	// Plans are the operator's; nil: there is the self-hosted one alone.
	Plans *quota.Plans
	// Limits are a plan's; nil: none has any.
	Limits func(plan string) schema.Object
	// PlanChanged is told on this node that a tenant has another plan; nil:
	// nobody is.
	PlanChanged func(tenant string)
	// Usage is what a tenant used in a month (2026-09), the current one if it
	// is "". Errors: fault.Invalid for what is no month. Nil: it is not known.
	Usage func(ctx context.Context, tenant, period string) (schema.Object, error)
}

// Service is the slice. It is safe for concurrent use.
type Service struct {
	Config
	inactive atomic.Pointer[map[string]struct{}]
}

// New makes a service. HoldBack needs one that was refreshed.
func New(c Config) *Service {
	c.LastLook = cmp.Or(c.LastLook, 10*time.Minute)
	if c.Forget == nil {
		c.Forget = func(txn.Tx) {}
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.Woke == nil {
		c.Woke = func() {}
	}
	if c.PlanChanged == nil {
		c.PlanChanged = func(string) {}
	}
	if c.Plans == nil {
		c.Plans = quota.Unlimited()
	}
	if c.Limits == nil {
		c.Limits = func(string) schema.Object { return nil }
	}
	s := &Service{Config: c}
	s.inactive.Store(&map[string]struct{}{})
	return s
}

func (s *Service) shown(t Tenant) Tenant {
	t.Quotas = s.Limits(t.Plan)
	return t
}

// Get reads a tenant. Errors: fault.NotFound.
func (s *Service) Get(ctx context.Context, id string) (Tenant, error) {
	t, err := s.Store.Get(ctx, id)
	return s.shown(t), absent(err)
}

// List lists tenants, newest first.
func (s *Service) List(ctx context.Context, f Filter) ([]Tenant, error) {
	all, err := s.Store.List(ctx, f)
	for i := range all {
		all[i] = s.shown(all[i])
	}
	return all, err
}

// Named finds a tenant by its id or its slug. Errors: fault.NotFound.
func (s *Service) Named(ctx context.Context, name string) (Tenant, error) {
	all, err := s.List(ctx, Filter{})
	if err != nil {
		return Tenant{}, err
	}
	for _, t := range all {
		if t.TenantID == name || t.Slug == name {
			return t, nil
		}
	}
	return Tenant{}, absent(identity.ErrNotFound)
}

// absent turns the port's errors into the refusals that the operator sees.
func absent(err error) error {
	switch {
	case errors.Is(err, identity.ErrNotFound):
		return fault.New(fault.NotFound, "", "There is no such company.")
	case errors.Is(err, identity.ErrTaken):
		return slugTaken(err)
	}
	return err
}

func slugTaken(err error) error {
	return fault.New(fault.Conflict, "ALREADY_EXISTS", "There is a company with this slug already.").Because(err)
}

// record writes into the operator's log what was done with a tenant.
func (s *Service) record(tx txn.Tx, who authz.Caller, action, tenant string, details jsontext.Value) error {
	if who.TenantID == "" {
		return nil // the command line, before there is an operator
	}
	return s.Audit.Record(tx, who, entry(action, tenant, details))
}

// recordBoth writes it into the tenant's log too.
func (s *Service) recordBoth(tx txn.Tx, who authz.Caller, action, tenant string, details jsontext.Value) error {
	if err := s.record(tx, who, action, tenant, details); err != nil || tenant == who.TenantID {
		return err
	}
	return s.Audit.RecordFor(tx, tenant, who, entry(action, tenant, details))
}

func entry(action, tenant string, details jsontext.Value) audit.Entry {
	return audit.Entry{Action: "tenant." + action, TargetType: "tenant", TargetID: tenant, Details: details}
}
