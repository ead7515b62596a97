package identity

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
)

// SignUp creates a tenant for a person who signs up, with that person as its
// owner. It creates no key, since a person who signs up uses a browser. The
// short name ends with random characters, because the plain one may be taken.
func (s *Tenants) SignUp(tx txn.Tx, name, email string) (Tenant, Member, error) {
	if badName(name) != "" {
		name, _, _ = strings.Cut(email, "@")
	}
	now := s.clock.Now()
	t := Tenant{
		TenantID: ident.New(), Name: strings.TrimSpace(name), Slug: slug(name) + "-" + strings.ToLower(randomText(8)),
		Status: Active, Plan: s.plans.Default(), Settings: jsontext.Value(`{}`), CreatedAt: now, UpdatedAt: now,
	}
	if err := s.store.CreateTenantTx(tx, t); err != nil {
		return t, Member{}, err
	}
	m := newMember(t.TenantID, email, authz.Owner, s.clock)
	m.Name, m.Verified = strings.TrimSpace(name), true
	return t, m, s.store.CreateMemberTx(tx, m)
}
