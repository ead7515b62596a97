package identity

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
)

// CheckName says what is wrong with the name of a tenant or a person, as a 422
// of the field name.
func CheckName(name string) error {
	if message := badName(name); message != "" {
		return fault.BadFields(fault.Field{Field: "name", Message: message})
	}
	return nil
}

// Found makes a tenant for a person who signs up, and that person its owner.
// It has no key: whoever signs up has a browser. The short name ends at
// random, for the plain one may be taken.
func (s *Service) Found(tx txn.Tx, name, email string) (Tenant, Member, error) {
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
	m := s.newMember(t.TenantID, email, authz.Owner)
	m.Name, m.Verified = strings.TrimSpace(name), true
	return t, m, s.store.CreateMemberTx(tx, m)
}
