// Package tenantadmin is how the operator of the platform administers tenants:
// create, change, suspend, reactivate and purge them.
//
// Suspending takes effect immediately. Credentials of the tenant are refused, no
// queued run starts, no schedule fires, and a run in progress stops before its
// next model call and keeps its state. When the tenant is reactivated, its runs
// continue.
//
// Purging begins with one commit that makes the tenant invisible. Its data is
// then deleted in small transactions, as leased work, so that a purge survives a
// crash and does not block other writers, however large the tenant is.
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
	"agentd/internal/base/pii"
	"agentd/internal/base/redact"
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
	Quotas           schema.Object   `json:"quotas" required:"true" doc:"The limits of the plan. Absent or null: not limited."`
	Settings         schema.Object   `json:"settings" required:"true"`
	PurgeProtection  bool            `json:"purge_protection" required:"true" doc:"If true, the company cannot be purged."`
	EgressAllowlist  []string        `json:"-"` // nil: its calls may go anywhere
	SuspensionReason string          `json:"suspension_reason,omitzero"`
	SuspendedAt      *time.Time      `json:"suspended_at,omitzero"`
	PrimaryEmail     string          `json:"primary_email,omitzero" doc:"Email of its first owner, if known."`
	Operator         bool            `json:"operator,omitzero" doc:"The company that runs the platform. It can be neither suspended nor purged."`
	CreatedAt        time.Time       `json:"created_at" required:"true"`
	UpdatedAt        time.Time       `json:"updated_at" required:"true"`
}

// Editable implements route.Editable: what the operator and the owner change, without
// the settings that have a row of their own.
func (t Tenant) Editable() any {
	return struct {
		TenantID, Name, Slug, Plan string
		Settings                   schema.Object
	}{t.TenantID, t.Name, t.Slug, t.Plan, t.Settings}
}

// Filter selects tenants; see sqldb.Filter.
type Filter struct {
	Status identity.Status `query:"status" enum:"active,suspended" doc:"Only companies in this state." filter:"t.status = ?" index:"primary key"`
}

// Store is the port to tenants and their data. Tenants that are being purged do
// not exist for it, unless a method says otherwise. Methods return
// identity.ErrNotFound for a missing record, and identity.ErrTaken for a slug
// that exists.
type Store interface {
	// List lists tenants, newest first. Limit 0: all.
	List(ctx context.Context, f Filter, w page.Window) ([]Tenant, error)
	Count(ctx context.Context, f Filter) (int, error)
	Get(ctx context.Context, id string) (Tenant, error)
	// LockTx reads a tenant and locks it until the transaction ends.
	LockTx(tx txn.Tx, id string) (Tenant, error)
	// UpdateTx stores what can be changed of a tenant.
	UpdateTx(tx txn.Tx, t Tenant) error
	// ListInactive lists the tenants for which no work is done: suspended ones and
	// those that are being purged.
	ListInactive(ctx context.Context) ([]string, error)
	// ListHeld lists the tenants that are under a legal hold.
	ListHeld(ctx context.Context) ([]string, error)
	// ListRedacted lists the kinds of data that tenants do not store, of those that name any.
	ListRedacted(ctx context.Context) (map[string][]pii.Entity, error)

	// SuspendWorkTx releases the lease of an item of a tenant that is still
	// inactive, until ResumeWorkTx. It reports whether it did; an item of an
	// active tenant stays leased.
	SuspendWorkTx(tx txn.Tx, held work.Lease, now time.Time) (parked bool, err error)
	// ResumeWorkTx makes up to limit items due again, and returns how many.
	ResumeWorkTx(tx txn.Tx, tenant, kind string, limit int) (int, error)

	// MarkDeletedTx makes a tenant invisible and stores its purge.
	MarkDeletedTx(tx txn.Tx, t Tenant, p Purge) error
	// GetPurge reads a purge that is in progress.
	GetPurge(ctx context.Context, id string) (Purge, error)
	// ListParts names all parts of a tenant's data, in an order in which they can
	// be deleted.
	ListParts(ctx context.Context) ([]string, error)
	// CountPart counts a tenant's rows of a part.
	CountPart(ctx context.Context, tenant, part string) (int64, error)
	// DeletePartTx deletes up to limit rows and adds their number to the purge.
	DeletePartTx(tx txn.Tx, tenant, part string, limit int) (int, error)
	// DeleteTx deletes the record of a tenant whose data is deleted, and returns its
	// purge. Repeating it changes nothing.
	DeleteTx(tx txn.Tx, tenant string) (Purge, error)
	// DeleteRemains removes what deleted rows left in the files, as far as the
	// database lets it. It calls hold in each of its transactions.
	DeleteRemains(ctx context.Context, hold func(tx txn.Tx) error) error
	// DeletePurgeTx deletes the record of a purge.
	DeletePurgeTx(tx txn.Tx, tenant string) error
}

// Purge is the deletion of a tenant.
type Purge struct {
	TenantID string
	Name     string
	By       authz.Caller // the fields that the audit log stores
	At       time.Time
	Counts   jsontext.Value // rows deleted so far, by part: a JSON object
	Logged   bool           // the tenant is deleted, and the audit log says so
}

// Config configures a Service.
type Config struct {
	DB      txn.Writer
	Store   Store
	Tenants *identity.Tenants
	Audit   *audit.Log
	Queue   work.Queue
	Cursors *page.Cursors
	Clock   clock.Clock
	Log     *slog.Logger

	// CheckEgress returns what is wrong with the entries of an egress allowlist. Nil:
	// every list is refused.
	CheckEgress func(entries []string) []fault.Field
	// OnEgress notifies every node that the egress rules of a tenant changed. Nil:
	// not called.
	OnEgress func(tenant string)

	// RunKind is the kind of work that is held back while a tenant is
	// suspended.
	RunKind string
	// Lease is how long the items of this package are leased without a
	// heartbeat.
	Lease time.Duration
	// InvalidateAll drops cached credentials on every node once tx commits. Nil:
	// not called.
	InvalidateAll func(tx txn.Tx)
	// OnChange notifies every node that tenants were suspended or reactivated;
	// OnResume that runs are due again. Nil: not called.
	OnChange func()
	OnResume func()
	// RecheckAfter is how long after a purge its tenant is checked again for
	// rows that a request in progress wrote meanwhile; 0 is 10 min.
	RecheckAfter time.Duration

	// Plans are the operator's; nil: only the self-hosted one.
	Plans *quota.Plans
	// Limits returns the limits of a plan; nil: no plan has limits.
	Limits func(plan string) schema.Object
	// OnPlanChange is called on this node when a tenant gets another plan; nil:
	// not called.
	OnPlanChange func(tenant string)
	// Usage returns what a tenant used in a month (2026-09), the current one if
	// it is "". Errors: fault.Invalid for an invalid month. Nil: not available.
	Usage func(ctx context.Context, tenant, period string) (schema.Object, error)
}

// Service is the slice. It is safe for concurrent use.
type Service struct {
	Config
	inactive  atomic.Pointer[map[string]struct{}]
	underHold atomic.Pointer[map[string]struct{}]
	redacted  atomic.Pointer[map[string]*redact.Redactor]
}

// New returns a service. Call Refresh before HeldBack.
func New(c Config) *Service {
	c.RecheckAfter = cmp.Or(c.RecheckAfter, 10*time.Minute)
	if c.InvalidateAll == nil {
		c.InvalidateAll = func(txn.Tx) {}
	}
	if c.OnChange == nil {
		c.OnChange = func() {}
	}
	if c.OnEgress == nil {
		c.OnEgress = func(string) {}
	}
	if c.CheckEgress == nil {
		c.CheckEgress = func([]string) []fault.Field {
			return []fault.Field{{Field: "egress_allowlist", Message: "is not available here"}}
		}
	}
	if c.OnResume == nil {
		c.OnResume = func() {}
	}
	if c.OnPlanChange == nil {
		c.OnPlanChange = func(string) {}
	}
	if c.Plans == nil {
		c.Plans = quota.Unlimited()
	}
	if c.Limits == nil {
		c.Limits = func(string) schema.Object { return nil }
	}
	s := &Service{Config: c}
	s.inactive.Store(&map[string]struct{}{})
	s.underHold.Store(&map[string]struct{}{})
	s.redacted.Store(&map[string]*redact.Redactor{})
	return s
}

func (s *Service) shown(t Tenant) Tenant {
	t.Quotas = s.Limits(t.Plan)
	return t
}

// Get reads a tenant. Errors: fault.NotFound.
func (s *Service) Get(ctx context.Context, id string) (Tenant, error) {
	t, err := s.Store.Get(ctx, id)
	return s.shown(t), publicError(err)
}

// List lists tenants, newest first.
func (s *Service) List(ctx context.Context, f Filter, w page.Window) ([]Tenant, error) {
	all, err := s.Store.List(ctx, f, w)
	for i := range all {
		all[i] = s.shown(all[i])
	}
	return all, err
}

// Named finds a tenant by its ID or its slug. Errors: fault.NotFound.
func (s *Service) Named(ctx context.Context, name string) (Tenant, error) {
	all, err := s.List(ctx, Filter{}, page.Window{})
	if err != nil {
		return Tenant{}, err
	}
	for _, t := range all {
		if t.TenantID == name || t.Slug == name {
			return t, nil
		}
	}
	return Tenant{}, publicError(identity.ErrNotFound)
}

// publicError turns the port's errors into the errors that the operator sees.
func publicError(err error) error {
	switch {
	case errors.Is(err, identity.ErrNotFound):
		return fault.New(fault.NotFound, "", "There is no such company.")
	case errors.Is(err, identity.ErrTaken):
		return slugTaken(err)
	}
	return err
}

func slugTaken(err error) error {
	return fault.New(fault.Conflict, "ALREADY_EXISTS", "There is already a company with this slug.").Because(err)
}

// record writes an action on a tenant into the operator's audit log.
func (s *Service) record(tx txn.Tx, who authz.Caller, action, tenant string, details jsontext.Value) error {
	if who.TenantID == "" {
		return nil // the command line, before there is an operator
	}
	return s.Audit.Record(tx, who, entry(action, tenant, details))
}

// recordBoth writes an action into the audit logs of the operator and the
// tenant.
func (s *Service) recordBoth(tx txn.Tx, who authz.Caller, action, tenant string, details jsontext.Value) error {
	if err := s.record(tx, who, action, tenant, details); err != nil || tenant == who.TenantID {
		return err
	}
	return s.Audit.RecordFor(tx, tenant, who, entry(action, tenant, details))
}

func entry(action, tenant string, details jsontext.Value) audit.Entry {
	return audit.Entry{Action: "tenant." + action, TargetType: "tenant", TargetID: tenant, Details: details}
}
