package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
)

// NewTenant is what a tenant is made of. Its fields are as whoever makes it
// has checked them, but for OwnerEmail.
type NewTenant struct {
	Name       string
	Slug       string         // "": made from the name
	Plan       string         // "": the default one
	Settings   jsontext.Value // an object; nil: {}
	OwnerEmail string         // see BadEmail; "": not known
	Keyless    bool           // the owner gets no key

	raw      RawKey // "": a new one
	operator bool
}

// AddTenant makes a tenant, its owner and, unless it is Keyless, a key that
// lets the owner do everything. also is called in the transaction; it may be
// nil. Errors: ErrTaken for a Slug that is there; a slug that is made from the
// name is given a random ending instead.
func (s *Service) AddTenant(ctx context.Context, n NewTenant, also func(txn.Tx, Tenant, Member, Grant) error) error {
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
		m := s.newMember(t.TenantID, email, authz.Owner)
		err = s.db.Write(ctx, func(tx txn.Tx) error { return s.addTenant(tx, t, m, raw, n.Keyless, also) })
	}
	if errors.Is(err, ErrTaken) && n.Slug == "" {
		return fmt.Errorf("no unique short name could be found for the tenant: %w", err)
	}
	return err
}

func (s *Service) addTenant(tx txn.Tx, t Tenant, m Member, raw RawKey, keyless bool, also func(txn.Tx, Tenant, Member, Grant) error) error {
	if err := s.store.CreateTenantTx(tx, t); err != nil {
		return err
	}
	if err := s.store.CreateMemberTx(tx, m); err != nil {
		return err
	}
	g := Grant{TenantID: t.TenantID, UserID: m.UserID}
	if !keyless {
		key := s.newKey(t.TenantID, m.UserID, "owner", raw, []authz.Scope{authz.Wildcard})
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

// BadName says what is wrong with the name of a tenant, a member or a key.
func BadName(name string) string { return badName(name) }

// BadEmail says what is wrong with an email address, which may be empty.
func BadEmail(email string) string {
	_, wrong := readEmail(email)
	return wrong
}
