// Package signin lets people in: by a code that is mailed to them, through an
// OpenID provider, and with a second factor where they have one (interface.md
// section 5; behaviours.md section 27; decisions.md D3). What it gives is a
// browser session, never a key.
//
// A person is an email address that they have shown to be theirs, with a
// membership in each of their tenants. Who has no address is that one member.
package signin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/mail"
	"agentd/internal/kernel/work"
)

// Membership is what somebody signs in to.
type Membership struct {
	Member identity.Member
	Tenant identity.Tenant
}

// Code is the code that was mailed last to an address, and how often that was.
type Code struct {
	Email     string
	Hash      []byte // empty: spent
	Terms     bool   // were accepted when it was asked for
	Asked     int    // how many in a row, this one included
	Wrong     int    // tries
	AgainAt   time.Time
	ExpiresAt time.Time
	ForgetAt  time.Time
}

// Link says who at a provider is who here.
type Link struct {
	Issuer        string
	Subject       string
	Provider      string // id of the provider with which it was made
	Email         string // the person
	ProviderEmail string // as the provider gave it
	LinkedAt      time.Time
}

// Factor is a person's second factor.
type Factor struct {
	Person      string // see personOf
	TenantID    string // "" of a person with an email
	Sealed      []byte // the secret
	Algorithm   Algorithm
	Recovery    [][]byte // hashes of the codes that are left
	CreatedAt   time.Time
	ConfirmedAt time.Time // zero: not yet; it counts for nothing
	LastStep    int64     // the time step of the last code that was accepted
	Wrong       int       // codes in a row
	WrongAt     time.Time // the last of them
}

// Errors of the Store.
var (
	ErrNotFound = errors.New("signin: not found")
	ErrTaken    = errors.New("signin: a unique value is taken")
)

// Store is the port to what signing in needs. What a transaction reads of codes
// and factors stays as it is until the transaction ends. What is absent is
// ErrNotFound.
type Store interface {
	// ListMembershipsTx lists those with an email, verified or not, in all tenants,
	// the one that was signed in to last first, then the oldest.
	ListMembershipsTx(tx txn.Tx, email string) ([]Membership, error)
	GetMembershipTx(tx txn.Tx, tenantID, userID string) (Membership, error)
	// UpdateLastLoginTx keeps when a member signed in.
	UpdateLastLoginTx(tx txn.Tx, tenantID, userID string, at time.Time) error

	LockCodeTx(tx txn.Tx, email string) (Code, error)
	// CreateCodeTx adds the first code of an email; ErrTaken where there is one, and
	// the transaction may go on.
	CreateCodeTx(tx txn.Tx, c Code) error
	UpdateCodeTx(tx txn.Tx, c Code) error
	DeleteCodeTx(tx txn.Tx, email string) error

	// CreateTicketTx keeps something sealed until it expires.
	CreateTicketTx(tx txn.Tx, kind string, hash, sealed []byte, expires time.Time) error
	// GetTicketTx reads one that has not expired.
	GetTicketTx(tx txn.Tx, kind string, hash []byte, now time.Time) ([]byte, error)
	// ConsumeTicketTx is Ticket for one of those who try at once; for all others it
	// is absent.
	ConsumeTicketTx(tx txn.Tx, kind string, hash []byte, now time.Time) ([]byte, error)

	GetLinkTx(tx txn.Tx, issuer, subject string) (Link, error)
	ListLinks(ctx context.Context, email string) ([]Link, error)
	// LockLinksTx is Links as a write sees it.
	LockLinksTx(tx txn.Tx, email string) ([]Link, error)
	// CreateLinkTx links; ErrTaken where that account is linked, or another of the
	// same provider to the person.
	CreateLinkTx(tx txn.Tx, l Link) error
	DeleteLinkTx(tx txn.Tx, email, provider string) error

	LockFactorTx(tx txn.Tx, person string) (Factor, error)
	// GetFactor is Factor outside of a transaction.
	GetFactor(ctx context.Context, person string) (Factor, error)
	PutFactorTx(tx txn.Tx, f Factor) error
	DeleteFactorTx(tx txn.Tx, person string) error

	// DeleteEmailTx deletes the code and the links of an email.
	DeleteEmailTx(tx txn.Tx, email string) error
	// DeleteExpiredTx deletes up to n codes and n tickets that are past.
	DeleteExpiredTx(tx txn.Tx, now time.Time, n int) error
}

// Members is the port to members outside of a transaction.
type Members interface {
	GetMember(ctx context.Context, tenantID, userID string) (identity.Member, error)
}

// Sessions is what is needed of browser sessions; *identity.Service has it.
type Sessions interface {
	OpenSession(tx txn.Tx, m identity.Member, d identity.Device) (identity.Session, identity.RawSession, error)
	// Verified notes that a second factor was shown in a session.
	Verified(tx txn.Tx, sessionID string, at time.Time) error
}

// Config is what a Service is made of.
type Config struct {
	Writer   txn.Writer
	Store    Store
	Members  Members
	Sessions Sessions
	Outbox   mail.Outbox
	Queue    work.Queue
	Box      *secret.Box
	Clock    clock.Clock
	Log      *slog.Logger
	Audit    audit.Recorder // nil: nobody keeps it
	// Public is the address under which browsers reach the service, without a
	// slash at its end.
	Public func() string
	// Signup: whoever has no membership may make a tenant of their own.
	Signup bool
	// Found makes a tenant and its owner.
	Found func(tx txn.Tx, name, email string) (identity.Tenant, identity.Member, error)
	// Prove is told that a person has just shown an email to be theirs, so that
	// memberships with it become verified; nil: nobody.
	Prove func(tx txn.Tx, email string) error
	// Invited says whether an email has an invite that waits; nil: none has.
	Invited func(ctx context.Context, email string) (bool, error)
	// Providers in the operator's order, each with the port to it.
	Providers []ConfiguredProvider
}

// ConfiguredProvider is a provider with the port to it.
type ConfiguredProvider struct {
	ProviderConfig
	Port Provider
}

// Service is the slice. Safe for concurrent use.
type Service struct {
	Config

	codeKey, recoveryKey []byte
}

// New makes a service.
func New(cfg Config) *Service {
	if cfg.Clock == nil {
		cfg.Clock = clock.System{}
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	return &Service{Config: cfg, codeKey: cfg.Box.Derive("signin/codes"), recoveryKey: cfg.Box.Derive("signin/recovery")}
}

// personOf names the person that a member is, and the tenant that this person
// is confined to: none, where a verified email makes them the same in all
// tenants. One that is not verified may be anybody's.
func personOf(m identity.Member) (person, tenant string) {
	if m.Verified {
		return "email:" + m.Email, ""
	}
	return "user:" + m.UserID, m.TenantID
}

// Forget deletes what is kept of a person who is being taken out of a tenant,
// in that transaction and before the member's email is: everything, if it was
// their last membership.
func (s *Service) Forget(tx txn.Tx, tenantID, userID string) error {
	m, err := s.Store.GetMembershipTx(tx, tenantID, userID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.Store.DeleteFactorTx(tx, "user:"+userID); err != nil || !m.Member.Verified {
		return err
	}
	left, err := s.verified(tx, m.Member.Email)
	if err != nil || len(left) > 1 {
		return err
	}
	if err := s.Store.DeleteEmailTx(tx, m.Member.Email); err != nil {
		return err
	}
	return s.Store.DeleteFactorTx(tx, "email:"+m.Member.Email)
}

// verified lists the memberships of the person with an email.
func (s *Service) verified(tx txn.Tx, email string) ([]Membership, error) {
	all, err := s.Store.ListMembershipsTx(tx, email)
	return slices.DeleteFunc(all, func(m Membership) bool { return !m.Member.Verified }), err
}

// record writes an audit entry about a person.
func (s *Service) record(tx txn.Tx, who authz.Caller, e audit.Entry) error {
	if s.Audit == nil {
		return nil
	}
	return s.Audit.Record(tx, who, e)
}
