// Package identity holds tenants, their members, and the credentials by which
// members call: API keys, browser sessions and stream tokens. It authenticates
// requests, manages members and invites, and creates the first tenant of a
// deployment.
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
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
)

// Status of a tenant, a member or a key.
type Status string

// The statuses. Tenants and members are active or suspended, keys are active
// or revoked. A deleted member keeps its record, but only the ID in it.
const (
	Active    Status = "active"
	Suspended Status = "suspended"
	Revoked   Status = "revoked"
	Deleted   Status = "deleted"
)

// Tenant is a company. Everything that agentd stores belongs to one.
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
	SocialLinks jsontext.Value `json:"social_links,omitzero"` // an object of URLs

	Public            bool           `json:"public,omitzero" doc:"Whether strangers see its profile."`
	PublicAgentID     string         `json:"public_agent_id,omitzero" format:"uuid" doc:"Agent that welcomes visitors of its profile."`
	PublishedAgentIDs []string       `json:"published_agent_ids,omitzero" format:"uuid" doc:"Agents that its profile shows, where they are public."`
	PublicSettings    PublicSettings `json:"public_settings,omitzero"`
	PublishedAt       time.Time      `json:"published_at,omitzero" doc:"When its profile became public."`

	Operator bool `json:"-"` // the first tenant, which runs the platform
}

// Editable implements route.Editable, for answers that show more than the profile.
func (t Tenant) Editable() any {
	type profile Tenant
	return profile(t)
}

// Member is a person in a tenant.
type Member struct {
	TenantID  string
	UserID    string
	Email     string // lower case, unique in the tenant; empty: unknown
	Verified  bool   // the person proved that the email is theirs
	Name      string
	AvatarURL string // empty: none
	Role      authz.Role
	Status    Status
	LastLogin time.Time // zero: never
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Key is the record of an API key. It belongs to the member who created it.
type Key struct {
	TenantID   string
	KeyID      string
	UserID     string
	Name       string
	Prefix     string // the 8 characters by which the key is looked up
	Scopes     []authz.Scope
	Status     Status
	CreatedAt  time.Time
	LastUsedAt time.Time // zero: never; accurate to about a minute
	ExpiresAt  time.Time // zero: never
	RevokedAt  time.Time // zero: not revoked
}

// Credential is what decides whether a key authenticates: its record, the hash
// of its secret, and the state of its holder.
type Credential struct {
	Key  Key
	Hash Hash
	Holder
}

// Holder is the state of the member and the tenant that hold a credential.
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

// Store is the port to tenants, members and keys. Methods return ErrNotFound
// for a missing record, and ErrTaken for a slug, prefix, email or operator
// tenant that already exists.
type Store interface {
	SessionStore

	// GetCredential finds a key of any tenant by its prefix.
	GetCredential(ctx context.Context, prefix string) (*Credential, error)
	// GetCredentialByID finds a key of a tenant.
	GetCredentialByID(ctx context.Context, tenantID, keyID string) (*Credential, error)
	// GetOperator returns the ID of the operator's tenant.
	GetOperator(ctx context.Context) (tenantID string, err error)
	GetTenant(ctx context.Context, tenantID string) (Tenant, error)
	GetMember(ctx context.Context, tenantID, userID string) (Member, error)
	// ListMembersByEmail lists the memberships of the person with an email in all
	// tenants, oldest first, and only those whose email is verified.
	ListMembersByEmail(ctx context.Context, email string) ([]Member, error)
	// GetKeyTx finds a key of a tenant as a write sees it.
	GetKey(ctx context.Context, tenantID, keyID string) (Key, error)
	GetKeyTx(tx txn.Tx, tenantID, keyID string) (Key, error)
	// ListKeys lists the keys of one member, newest first, revoked ones included.
	ListKeys(ctx context.Context, tenantID, userID string) ([]Key, error)

	CreateTenantTx(tx txn.Tx, t Tenant) error
	CreateMemberTx(tx txn.Tx, m Member) error
	CreateKeyTx(tx txn.Tx, k Key, hash Hash) error
	// UpdateLastLoginTx stores when a member last signed in.
	UpdateLastLoginTx(tx txn.Tx, tenantID, userID string, at time.Time) error
	GetMemberByEmailTx(tx txn.Tx, tenantID, email string) (Member, error)
	// RevokeKeyTx marks a key of a member as revoked at that moment, unless it is
	// revoked already, and returns the key's prefix.
	RevokeKeyTx(tx txn.Tx, tenantID, userID, keyID string, at time.Time) (prefix string, err error)
	// RecordUseTx stores when keys and sessions were last used. It never moves a
	// time back.
	RecordUseTx(tx txn.Tx, uses []Use) error
}

// Config configures a Service.
type Config struct {
	DB    txn.Writer
	Store Store
	Clock clock.Clock
	Log   *slog.Logger
	Plans *quota.Plans   // nil: one plan without limits
	Audit audit.Recorder // records changes of keys; nil: not recorded
	// Box seals stream tokens; nil: with a random key of this process.
	Box *secret.Box
	// Hint sends a hint to Invalidate on every other node, where possible; it
	// must not block. Nil: there is no other node.
	Hint func(hint string)
	// Elapsed is a monotonic clock for the cache; nil: the process's own.
	Elapsed func() time.Duration
}

// Service assembles the slice: each part serves one purpose with its own
// dependencies. It is safe for concurrent use.
type Service struct {
	*Authenticator

	Keys     *Keys
	Sessions *Sessions
	Tenants  *Tenants

	devices devices
	self    self
}

// New returns a service. It records when credentials are used only between
// Start and Stop.
func New(cfg Config) *Service {
	if cfg.Elapsed == nil {
		start := time.Now()
		cfg.Elapsed = func() time.Duration { return time.Since(start) }
	}
	if cfg.Plans == nil {
		cfg.Plans = quota.Unlimited()
	}
	auth := newAuthenticator(cfg)
	s := &Service{
		Authenticator: auth,
		Keys:          &Keys{db: cfg.DB, store: cfg.Store, clock: cfg.Clock, audit: cfg.Audit, auth: auth},
		Sessions:      &Sessions{store: cfg.Store, clock: cfg.Clock, auth: auth},
		Tenants:       &Tenants{db: cfg.DB, store: cfg.Store, clock: cfg.Clock, plans: cfg.Plans},
		self:          self{cfg.Store, cfg.Plans},
	}
	s.devices = devices{db: cfg.DB, store: cfg.Store, clock: cfg.Clock, auth: auth, keys: s.Keys, sessions: s.Sessions}
	return s
}

// Routes lists the operations on the caller's own identity, keys and sessions.
func (s *Service) Routes() []route.Route {
	return append(s.devices.routes(), append(s.self.routes(), s.Keys.routes()...)...)
}

// notFound turns the port's ErrNotFound into the 404 that callers see.
func notFound(err error, what string) error {
	if errors.Is(err, ErrNotFound) {
		return fault.NewNotFound(what)
	}
	return err
}
