package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
)

// Tenants creates tenants with their owners.
type Tenants struct {
	db    txn.Writer
	store Store
	clock clock.Clock
	plans *quota.Plans
}

// NewTenant describes a tenant to create. The caller has validated its fields,
// except OwnerEmail.
type NewTenant struct {
	Name       string
	Slug       string         // empty: derived from the name
	Plan       string         // empty: the default one
	Settings   jsontext.Value // an object; nil: {}
	OwnerEmail string         // see BadEmail; empty: unknown
	Keyless    bool           // create no key for the owner

	raw      RawKey // empty: a random one
	operator bool
}

// Add creates a tenant, its owner and, unless it is Keyless, a key that allows
// the owner everything. also is called in the transaction; it may be nil.
// Errors: ErrTaken for a Slug that exists. A slug that is derived from the name
// gets a random ending instead.
func (s *Tenants) Add(ctx context.Context, n NewTenant, also func(txn.Tx, Tenant, Member, Grant) error) error {
	email, _ := readEmail(n.OwnerEmail)
	err := ErrTaken
	for attempt := 0; attempt < 4 && errors.Is(err, ErrTaken) && (attempt == 0 || n.Slug == ""); attempt++ {
		now := s.clock.Now()
		t := Tenant{
			TenantID: ident.New(), Name: n.Name, Slug: cmp.Or(n.Slug, slug(n.Name)), Status: Active, Plan: cmp.Or(n.Plan, s.plans.Default()),
			Settings: n.Settings, CreatedAt: now, UpdatedAt: now, Operator: n.operator,
		}
		if len(t.Settings) == 0 {
			t.Settings = jsontext.Value(`{}`)
		}
		if attempt > 0 {
			t.Slug += "-" + strings.ToLower(randomText(6))
		}
		raw := n.raw
		if raw == "" {
			raw = NewRawKey()
		}
		m := newMember(t.TenantID, email, authz.Owner, s.clock)
		err = s.db.Write(ctx, func(tx txn.Tx) error { return s.addTx(tx, t, m, raw, n.Keyless, also) })
	}
	if errors.Is(err, ErrTaken) && n.Slug == "" {
		return fmt.Errorf("no unique short name found for the tenant: %w", err)
	}
	return err
}

func (s *Tenants) addTx(
	tx txn.Tx, t Tenant, m Member, raw RawKey, keyless bool, also func(txn.Tx, Tenant, Member, Grant) error,
) error {
	if err := s.store.CreateTenantTx(tx, t); err != nil {
		return err
	}
	if err := s.store.CreateMemberTx(tx, m); err != nil {
		return err
	}
	g := Grant{TenantID: t.TenantID, UserID: m.UserID}
	if !keyless {
		key := newKey(t.TenantID, m.UserID, "owner", raw, []authz.Scope{authz.Wildcard}, s.clock)
		if err := s.store.CreateKeyTx(tx, key, raw.Hash()); err != nil {
			return err
		}
		g.KeyID, g.RawKey = key.KeyID, raw
	}
	if also == nil {
		return nil
	}
	return also(tx, t, m, g)
}

// newMember returns the record of a new member whose email is verified: the
// operator vouches for it, or the person has just proved it.
func newMember(tenantID, email string, role authz.Role, clk clock.Clock) Member {
	now := clk.Now()
	name, _, _ := strings.Cut(email, "@")
	return Member{
		TenantID: tenantID, UserID: ident.New(), Email: email, Verified: email != "", Name: name,
		Role: role, Status: Active, CreatedAt: now, UpdatedAt: now,
	}
}

// TenantNames returns the names of the caller's tenant and of another tenant. The
// other one stays empty unless the caller's person is a member of it and the
// caller may act beyond the own tenant.
func (s *Service) TenantNames(ctx context.Context, who authz.Caller, other string) (own, asserted string) {
	if t, err := s.self.store.GetTenant(ctx, who.TenantID); err == nil {
		own = t.Name
	}
	m, err := s.self.store.GetMember(ctx, who.TenantID, who.UserID)
	if err != nil || !m.Verified || who.CheckPerson() != nil {
		return own, ""
	}
	all, err := s.self.store.ListMembersByEmail(ctx, m.Email)
	if err != nil || !slices.ContainsFunc(all, func(o Member) bool { return o.TenantID == other && o.Verified }) {
		return own, ""
	}
	if t, err := s.self.store.GetTenant(ctx, other); err == nil {
		asserted = t.Name
	}
	return own, asserted
}

// KeyName returns the name of a key. Errors: NotFound, also for a key that was
// removed.
func (s *Service) KeyName(ctx context.Context, tenantID, keyID string) (string, error) {
	k, err := s.self.store.GetKey(ctx, tenantID, keyID)
	return k.Name, err
}

// NamesOf returns the names of a tenant and of a member of it, each "" if it cannot be
// read. A member without a name is named by their email.
func (s *Service) NamesOf(ctx context.Context, tenantID, userID string) (company, person string) {
	if t, err := s.self.store.GetTenant(ctx, tenantID); err == nil {
		company = t.Name
	}
	if userID == "" {
		return company, ""
	}
	if m, err := s.self.store.GetMember(ctx, tenantID, userID); err == nil {
		person = cmp.Or(m.Name, m.Email, "a member")
	}
	return company, person
}
