// Package identity knows tenants, their members, and the keys by which members
// call (interface.md section 5; decisions.md D3, D4, D12). It authenticates,
// makes and revokes keys, and makes the first tenant of a deployment.
package identity

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
)

// Status of a tenant, a member or a key.
type Status string

// The statuses. Tenants and members are active or suspended, keys are active
// or revoked. Of a deleted member only the id is left.
const (
	Active    Status = "active"
	Suspended Status = "suspended"
	Revoked   Status = "revoked"
	Deleted   Status = "deleted"
)

// Tenant is a company: whose things are whose.
type Tenant struct {
	TenantID  string         `json:"tenant_id"`
	Name      string         `json:"name"`
	Slug      string         `json:"slug" doc:"Short name, unique on this deployment."`
	Status    Status         `json:"status" enum:"active,suspended"`
	Plan      string         `json:"plan"`
	Settings  jsontext.Value `json:"settings"` // an object
	CreatedAt time.Time      `json:"created_at"`
	UpdatedAt time.Time      `json:"updated_at"`

	Description string         `json:"description,omitzero"`
	LogoURL     string         `json:"logo_url,omitzero"`
	Branding    jsontext.Value `json:"branding,omitzero"`     // an object
	SocialLinks jsontext.Value `json:"social_links,omitzero"` // an object of addresses

	Operator bool `json:"-"` // the first tenant, which runs the platform
}

// Member is a person in a tenant.
type Member struct {
	TenantID  string
	UserID    string
	Email     string // lower case, unique in the tenant; empty: not known
	Verified  bool   // the email was shown to be this person's
	Name      string
	AvatarURL string // "": none
	Role      authz.Role
	Status    Status
	LastLogin time.Time // zero: never
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Key is the record of an API key. It belongs to the member who made it.
type Key struct {
	TenantID   string
	KeyID      string
	UserID     string
	Name       string
	Prefix     string // the 8 characters by which the key is found
	Scopes     []authz.Scope
	Status     Status
	CreatedAt  time.Time
	LastUsedAt time.Time // zero: never; kept to about a minute
	ExpiresAt  time.Time // zero: never
	RevokedAt  time.Time // zero: not revoked
}

// Credential is what decides whether a key authenticates: its record, the hash
// of its secret, and what is known of its holder.
type Credential struct {
	Key  Key
	Hash Hash
	Holder
}

// Holder is what is known of whose a credential is.
type Holder struct {
	Role         authz.Role
	MemberStatus Status
	TenantStatus Status
	Operator     bool
}

// Errors of the Store.
var (
	ErrNotFound = errors.New("identity: not found")
	ErrTaken    = errors.New("identity: a unique value is taken")
)

// Store is the port to tenants, members and keys. What is absent is
// ErrNotFound; a slug, prefix, email or operator tenant that is there already
// is ErrTaken.
type Store interface {
	SessionStore

	// GetCredential finds a key of whatever tenant by its prefix.
	GetCredential(ctx context.Context, prefix string) (*Credential, error)
	// GetCredentialByID finds a key of a tenant.
	GetCredentialByID(ctx context.Context, tenantID, keyID string) (*Credential, error)
	// GetOperator gives the id of the operator's tenant.
	GetOperator(ctx context.Context) (tenantID string, err error)
	GetTenant(ctx context.Context, tenantID string) (Tenant, error)
	GetMember(ctx context.Context, tenantID, userID string) (Member, error)
	// ListMembersByEmail lists the memberships of the person with an email, in all
	// tenants, the oldest first: those alone for which the email is verified.
	ListMembersByEmail(ctx context.Context, email string) ([]Member, error)
	// GetKeyTx finds a key of a tenant as a write sees it.
	GetKeyTx(tx txn.Tx, tenantID, keyID string) (Key, error)
	// ListKeys lists the keys of one member, newest first, revoked ones included.
	ListKeys(ctx context.Context, tenantID, userID string) ([]Key, error)

	CreateTenantTx(tx txn.Tx, t Tenant) error
	CreateMemberTx(tx txn.Tx, m Member) error
	CreateKeyTx(tx txn.Tx, k Key, hash Hash) error
	// UpdateLastLoginTx keeps when a member last signed in.
	UpdateLastLoginTx(tx txn.Tx, tenantID, userID string, at time.Time) error
	GetMemberByEmailTx(tx txn.Tx, tenantID, email string) (Member, error)
	// RevokeKeyTx marks a key of a member as revoked, the first time with that
	// moment, and gives the key's prefix.
	RevokeKeyTx(tx txn.Tx, tenantID, userID, keyID string, at time.Time) (prefix string, err error)
	// RecordUseTx keeps when keys were used; it moves no time back.
	RecordUseTx(tx txn.Tx, uses []Use) error
}

// Config is what a Service is made of.
type Config struct {
	DB    txn.Writer
	Store Store
	Clock clock.Clock
	Log   *slog.Logger
	Plans *quota.Plans   // nil: none has limits
	Audit audit.Recorder // told what is done to keys; nil: nobody
	// Box seals stream tokens; nil: under a key of this process alone.
	Box *secret.Box
	// Hint is given to Hear on every other node, if it can be; it must not
	// block. Nil: there is no other node.
	Hint func(hint string)
	// Elapsed is a monotonic clock for the cache; nil: the process's own.
	Elapsed func() time.Duration
}

// Service is the slice. It is safe for concurrent use.
type Service struct {
	db    txn.Writer
	store Store
	clock clock.Clock
	plans *quota.Plans
	audit audit.Recorder // nil: nobody
	cache *credentials
	uses  *useRecorder
	hint  func(string) // nil: nobody
	box   *secret.Box  // of stream tokens

	factors Factors
}

// New makes a service. Only one that was started records when keys are used.
func New(cfg Config) *Service {
	if cfg.Elapsed == nil {
		start := time.Now()
		cfg.Elapsed = func() time.Duration { return time.Since(start) }
	}
	if cfg.Plans == nil {
		cfg.Plans = quota.Unlimited()
	}
	s := &Service{db: cfg.DB, store: cfg.Store, clock: cfg.Clock, plans: cfg.Plans, audit: cfg.Audit, hint: cfg.Hint}
	s.box = streamBox(cfg.Box)
	s.cache = newCredentials(cfg.Store, cfg.Elapsed)
	s.uses = newUseRecorder(func(ctx context.Context, uses []Use) error {
		return cfg.DB.Write(ctx, func(tx txn.Tx) error { return cfg.Store.RecordUseTx(tx, uses) })
	}, cfg.Log)
	return s
}

// Start begins to record when keys are used, in the background.
func (s *Service) Start() { s.uses.start() }

// Stop writes down the uses that are not yet recorded, and ends.
func (s *Service) Stop() { s.uses.stop() }

// record tells the audit log what was done, in the transaction of it.
func (s *Service) record(tx txn.Tx, who authz.Caller, e audit.Entry) error {
	if s.audit == nil {
		return nil
	}
	return s.audit.Record(tx, who, e)
}

// gone turns the port's ErrNotFound into the refusal that callers see.
func gone(err error, what string) error {
	if errors.Is(err, ErrNotFound) {
		return fault.NoSuch(what)
	}
	return err
}
