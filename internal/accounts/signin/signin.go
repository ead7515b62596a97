// Package signin signs people in: with a code that is sent by email, through an
// OpenID provider, and with a second factor where they have one. Signing in
// opens a browser session; it never creates a key.
//
// A person is identified by a verified email address and has a membership in
// each of their tenants. A member without a verified address is a person of
// their own.
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

// Membership is a member with their tenant.
type Membership struct {
	Member identity.Member
	Tenant identity.Tenant
}

// Address counts the codes that were sent to an email and the wrong ones that were
// entered for it.
type Address struct {
	Email      string
	Asked      int // codes in a row
	AskedAt    time.Time
	AgainAt    time.Time // when the next code can be requested
	Tried      int       // wrong six-digit codes since TriedSince
	TriedSince time.Time
	ForgetAt   time.Time
}

// Code is a code that was sent and is not used yet.
type Code struct {
	Email     string
	Browser   []byte // hash of what the browser that asked keeps
	Short     []byte // hash of the six digits
	Long      []byte // hash of the long code; empty: there is none
	Terms     bool   // the terms were accepted with the request
	Wrong     int    // wrong six-digit codes from the browser that asked
	Elsewhere int    // wrong six-digit codes from others
	ExpiresAt time.Time
}

// Link connects an account at a provider with a person here.
type Link struct {
	Issuer        string
	Subject       string
	Provider      string // ID of the provider with which it was created
	Email         string // of the person
	ProviderEmail string // as the provider reported it
	LinkedAt      time.Time
}

// Factor is a person's second factor.
type Factor struct {
	Person      string // see personOf
	TenantID    string // empty for a person with an email
	Sealed      []byte // the secret
	Algorithm   Algorithm
	Recovery    [][]byte // hashes of the unused recovery codes
	CreatedAt   time.Time
	ConfirmedAt time.Time // zero: not confirmed, and not in effect
	LastStep    int64     // time step of the last accepted code
	Wrong       int       // wrong codes in a row
	WrongAt     time.Time // time of the last wrong code
}

// Errors of the Store.
var (
	ErrNotFound = errors.New("signin: not found")
	ErrTaken    = errors.New("signin: a unique value is taken")
)

// Store is the port to what signing in stores. A transaction that reads a code or
// a factor locks it until it ends. Methods return ErrNotFound for a missing
// record.
type Store interface {
	// ListMembershipsTx lists the memberships with an email, verified or not, in all
	// tenants: first the one that was signed in to last, then the oldest.
	ListMembershipsTx(tx txn.Tx, email string) ([]Membership, error)
	GetMembershipTx(tx txn.Tx, tenantID, userID string) (Membership, error)
	// UpdateLastLoginTx stores when a member signed in.
	UpdateLastLoginTx(tx txn.Tx, tenantID, userID string, at time.Time) error

	LockAddressTx(tx txn.Tx, email string) (Address, error)
	// CreateAddressTx adds an email that is not known yet. After ErrTaken, which
	// reports that it is, the transaction can continue.
	CreateAddressTx(tx txn.Tx, a Address) error
	UpdateAddressTx(tx txn.Tx, a Address) error

	CreateCodeTx(tx txn.Tx, c Code) error
	// ListCodesTx lists the codes of an email that have not expired, newest first.
	ListCodesTx(tx txn.Tx, email string, now time.Time) ([]Code, error)
	// UpdateCodeTx stores how often a wrong code was entered for a code.
	UpdateCodeTx(tx txn.Tx, c Code) error
	DeleteCodeTx(tx txn.Tx, c Code) error

	// CreateTicketTx stores something sealed until it expires.
	CreateTicketTx(tx txn.Tx, kind string, hash, sealed []byte, expires time.Time) error
	// GetTicketTx reads one that has not expired.
	GetTicketTx(tx txn.Tx, kind string, hash []byte, now time.Time) ([]byte, error)
	// ConsumeTicketTx reads and deletes one. Of concurrent callers only one gets it.
	ConsumeTicketTx(tx txn.Tx, kind string, hash []byte, now time.Time) ([]byte, error)

	GetLinkTx(tx txn.Tx, issuer, subject string) (Link, error)
	ListLinks(ctx context.Context, email string) ([]Link, error)
	// LockLinksTx is ListLinks as a write sees it.
	LockLinksTx(tx txn.Tx, email string) ([]Link, error)
	// CreateLinkTx adds a link. ErrTaken: the account is linked already, or the
	// person is linked to another account of the same provider.
	CreateLinkTx(tx txn.Tx, l Link) error
	DeleteLinkTx(tx txn.Tx, email, provider string) error

	LockFactorTx(tx txn.Tx, person string) (Factor, error)
	// GetFactor is LockFactorTx outside of a transaction.
	GetFactor(ctx context.Context, person string) (Factor, error)
	PutFactorTx(tx txn.Tx, f Factor) error
	DeleteFactorTx(tx txn.Tx, person string) error

	// DeleteEmailTx deletes the codes and the links of an email.
	DeleteEmailTx(tx txn.Tx, email string) error
	// DeleteExpiredTx deletes up to n addresses, n codes and n tickets that have
	// expired.
	DeleteExpiredTx(tx txn.Tx, now time.Time, n int) error
}

// Members is the port to members outside a transaction.
type Members interface {
	GetMember(ctx context.Context, tenantID, userID string) (identity.Member, error)
}

// Sessions is the port to browser sessions; *identity.Sessions implements it.
type Sessions interface {
	Open(tx txn.Tx, m identity.Member, d identity.Device) (identity.Session, identity.RawSession, error)
	// CreateKey creates the key of a session that was just opened.
	CreateKey(tx txn.Tx, sessionID string) (identity.RawKey, error)
	// MarkVerified records that a second factor was verified in a session.
	MarkVerified(tx txn.Tx, sessionID string, at time.Time) error
}

// Config configures a Service.
type Config struct {
	Writer   txn.Writer
	Store    Store
	Members  Members
	Sessions Sessions
	Outbox   mail.Outbox
	Queue    work.Queue
	Box      *secret.Box
	// RecoveryKey and CodeKey key the stored hashes of recovery codes and of mailed
	// codes. They stay the same for as long as these are stored.
	RecoveryKey, CodeKey []byte

	Clock clock.Clock
	Log   *slog.Logger
	Audit audit.Recorder // nil: not recorded
	// Public returns the URL under which browsers reach the service, without a
	// trailing slash.
	Public func() string
	// Signup allows people without a membership to create a tenant.
	Signup func() bool
	// SignUp creates a tenant and its owner.
	SignUp func(tx txn.Tx, name, email string) (identity.Tenant, identity.Member, error)
	// Prove is called when a person has just proved that an email is theirs, and
	// verifies their memberships with it; nil: not called.
	Prove func(tx txn.Tx, email string) error
	// Invited reports whether an email has a live invite; nil: none has.
	Invited func(ctx context.Context, email string) (bool, error)
	// Providers in the operator's order, each with the port to it.
	Providers []ConfiguredProvider
	// Added returns the providers that the operator adds while the program runs. One of
	// the same ID takes the place of one of Providers. Nil: none.
	Added func() []ConfiguredProvider
}

// providers returns the providers that are configured now.
func (c *Config) providers() providers {
	fixed, added := c.Providers, c.Added
	return func() []ConfiguredProvider {
		if added == nil {
			return fixed
		}
		all := slices.Clone(added())
		for _, p := range slices.Backward(fixed) {
			if !slices.ContainsFunc(all, func(a ConfiguredProvider) bool { return a.ID == p.ID }) {
				all = slices.Insert(all, 0, p)
			}
		}
		return all
	}
}

// Service assembles the slice: each part serves one way of signing in, or one
// thing that people manage about it. Safe for concurrent use.
type Service struct {
	store         Store
	codes         codes
	onetime       onetime
	byKey         byKey
	methods       methods
	registrations registrations
	oauth         oauth
	factors       *factors
	links         links
}

// New returns a service.
func New(c Config) *Service {
	if c.Signup == nil {
		c.Signup = func() bool { return false }
	}
	if c.Clock == nil {
		c.Clock = clock.System{}
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	available := c.providers()
	pending := tokens{store: c.Store, box: c.Box, clock: c.Clock}
	second := &factors{
		writer: c.Writer, store: c.Store, members: c.Members, sessions: c.Sessions, box: c.Box, clock: c.Clock, audit: c.Audit,
		recoveryKey: c.RecoveryKey,
	}
	in := &logins{
		store: c.Store, sessions: c.Sessions, factors: second, clock: c.Clock, audit: c.Audit,
		signupOn: c.Signup, createTenant: c.SignUp, prove: c.Prove,
	}
	return &Service{
		store: c.Store,
		codes: codes{
			writer: c.Writer, store: c.Store, outbox: c.Outbox, queue: c.Queue, box: c.Box, clock: c.Clock, log: c.Log,
			public: c.Public, signupOn: c.Signup, logins: in, key: c.CodeKey,
		},
		onetime: onetime{writer: c.Writer, tokens: pending, logins: in},
		byKey:   byKey{writer: c.Writer, store: c.Store, logins: in},
		methods: methods{outbox: c.Outbox, providers: available, signupOn: c.Signup},
		registrations: registrations{
			writer: c.Writer, store: c.Store, outbox: c.Outbox, clock: c.Clock, public: c.Public, signupOn: c.Signup,
			tokens: pending, logins: in,
		},
		oauth: oauth{
			writer: c.Writer, store: c.Store, clock: c.Clock, audit: c.Audit, public: c.Public, signupOn: c.Signup,
			invited: c.Invited, providers: available, tokens: pending, logins: in,
		},
		factors: second,
		links:   links{writer: c.Writer, store: c.Store, members: c.Members, outbox: c.Outbox, audit: c.Audit, providers: available},
	}
}

// Handle is the work.Handler of requests for codes (see WorkKind).
func (s *Service) Handle(ctx context.Context, held work.Lease) error {
	return s.codes.handle(ctx, held)
}

// Enrolled reports whether the person who a member is has a second factor. It
// implements identity.Factors.
func (s *Service) Enrolled(tx txn.Tx, tenantID, userID string) (bool, error) {
	return s.factors.enrolled(tx, tenantID, userID)
}

// Fresh refuses an operation that cannot be undone to a browser session of a
// person with a second factor who has not verified it within the last 15
// minutes. Keys pass: their creator decided what they may do. Errors: 401
// mfa_required, reason stale.
func (s *Service) Fresh(ctx context.Context, who authz.Caller) error {
	return s.factors.fresh(ctx, who)
}

// DeleteMember deletes what is stored about a person who is being removed from a
// tenant: everything, if this was their last membership. It is called in the
// transaction of the removal, before the member's email is deleted.
func (s *Service) DeleteMember(tx txn.Tx, tenantID, userID string) error {
	m, err := s.store.GetMembershipTx(tx, tenantID, userID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.store.DeleteFactorTx(tx, "user:"+userID); err != nil || !m.Member.Verified {
		return err
	}
	remaining, err := verifiedMemberships(tx, s.store, m.Member.Email)
	if err != nil || len(remaining) > 1 {
		return err
	}
	if err := s.store.DeleteEmailTx(tx, m.Member.Email); err != nil {
		return err
	}
	return s.store.DeleteFactorTx(tx, "email:"+m.Member.Email)
}

// personOf returns the person that a member is, and the tenant to which that
// person is confined: "" where a verified email makes them the same person in
// all tenants. An unverified email may be anyone's.
func personOf(m identity.Member) (person, tenant string) {
	if m.Verified {
		return "email:" + m.Email, ""
	}
	return "user:" + m.UserID, m.TenantID
}

// verifiedMemberships lists the memberships of the person with an email.
func verifiedMemberships(tx txn.Tx, store Store, email string) ([]Membership, error) {
	all, err := store.ListMembershipsTx(tx, email)
	return slices.DeleteFunc(all, func(m Membership) bool { return !m.Member.Verified }), err
}
