package identity

import (
	"cmp"
	"context"
	"errors"
	"net/mail"
	"slices"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// Grant is a key that was made for a member, to be shown once.
type Grant struct {
	TenantID string
	UserID   string
	KeyID    string
	RawKey   RawKey
}

// Bootstrap makes the operator's tenant, its owner and the owner's key where
// there is none yet, and says whether it did. The key is ownerKey if that is
// given, and made otherwise. Of processes that start at once, one makes them.
func (s *Service) Bootstrap(ctx context.Context, ownerKey secret.String) (g Grant, made bool, err error) {
	if there, err := s.bootstrapped(ctx); there || err != nil {
		return Grant{}, false, err
	}
	raw := NewRawKey()
	if !ownerKey.Empty() {
		var ok bool
		if raw, ok = ParseRawKey(ownerKey.Reveal()); !ok {
			return Grant{}, false, errors.New("AGENTD_OWNER_KEY is no key: it must be svc_, 8 letters or digits, _, and 32 letters or digits")
		}
	}
	err = s.AddTenant(ctx, NewTenant{Name: "Operator", raw: raw, operator: true}, func(_ txn.Tx, _ Tenant, _ Member, granted Grant) error {
		g = granted
		return nil
	})
	if errors.Is(err, ErrTaken) {
		if there, err := s.bootstrapped(ctx); there || err != nil {
			return Grant{}, false, err
		}
	}
	return g, err == nil, err
}

func (s *Service) bootstrapped(ctx context.Context) (bool, error) {
	_, err := s.store.GetOperator(ctx)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// CreateTenant is CreateTenantOn with the default plan.
func (s *Service) CreateTenant(ctx context.Context, name, email string) (Grant, error) {
	return s.CreateTenantOn(ctx, "", name, email)
}

// CreateTenantOn makes a tenant, its owner and a key that lets the owner do
// everything. email may be empty, and so may plan: the default one. Errors: 422
// with the wrong fields.
func (s *Service) CreateTenantOn(ctx context.Context, plan, name, email string) (Grant, error) {
	email, badEmail := readEmail(email)
	var wrong []fault.Field
	if message := badName(name); message != "" {
		wrong = append(wrong, fault.Field{Field: "name", Message: message})
	}
	if badEmail != "" {
		wrong = append(wrong, fault.Field{Field: "email", Message: badEmail})
	}
	plan = cmp.Or(plan, s.plans.Default())
	if !s.plans.Known(plan) {
		wrong = append(wrong, fault.Field{Field: "plan", Message: "it is not one of the plans: " + s.plans.Names()})
	}
	if wrong != nil {
		return Grant{}, fault.BadFields(wrong...)
	}
	var g Grant
	err := s.AddTenant(ctx, NewTenant{Name: strings.TrimSpace(name), OwnerEmail: email, Plan: plan}, func(_ txn.Tx, _ Tenant, _ Member, granted Grant) error {
		g = granted
		return nil
	})
	return g, err
}

// GrantKey makes a key for a member of a tenant, of the operator's where the
// id is empty: for the one with that email, or else for a new member with that
// role. The operator grants whatever he
// wants. scopes nil means the default ones. Errors: 404 for an unknown tenant,
// 422 with the wrong fields, 409 where the member has another role.
func (s *Service) GrantKey(ctx context.Context, tenantID string, role authz.Role, scopes []authz.Scope, name, email string) (Grant, error) {
	email, badEmail := readEmail(email)
	if scopes == nil {
		scopes = slices.Clone(authz.Defaults)
	}
	scopes, wrong := knownScopes(scopes)
	for field, message := range map[string]string{"name": badName(name), "email": badEmail} {
		if message != "" {
			wrong = append(wrong, fault.Field{Field: field, Message: message})
		}
	}
	if !role.Valid() {
		wrong = append(wrong, fault.Field{Field: "role", Message: "is not one of viewer, developer, admin, owner"})
	}
	if wrong != nil {
		return Grant{}, fault.BadFields(wrong...)
	}
	tenantID, err := s.tenantOrFirst(ctx, tenantID)
	if err != nil {
		return Grant{}, err
	}
	var g Grant
	err = s.write(ctx, func(tx txn.Tx) error {
		m, err := s.memberWith(tx, tenantID, email, role)
		if err != nil {
			return err
		}
		raw := NewRawKey()
		key := s.newKey(tenantID, m.UserID, name, raw, scopes)
		g = Grant{tenantID, m.UserID, key.KeyID, raw}
		if err := s.store.CreateKeyTx(tx, key, raw.Hash()); err != nil {
			return err
		}
		return audit.Tell(s.audit, tx, authz.Caller{TenantID: tenantID, Method: audit.CommandLine}, keyCreated(key))
	})
	return g, err
}

// memberWith finds the member with an email, or makes one.
func (s *Service) memberWith(tx txn.Tx, tenantID, email string, role authz.Role) (Member, error) {
	if email != "" {
		m, err := s.store.GetMemberByEmailTx(tx, tenantID, email)
		if err == nil && m.Role != role {
			return m, fault.New(fault.Conflict, "", "%s is a member with the role %s, not %s; a key has the role of its member.", email, m.Role, role)
		}
		if !errors.Is(err, ErrNotFound) {
			return m, err
		}
	}
	m := s.newMember(tenantID, email, role)
	return m, s.store.CreateMemberTx(tx, m)
}

// newMember is the record of a new member whose email is known to be theirs:
// the operator says so, or they have just shown it.
func (s *Service) newMember(tenantID, email string, role authz.Role) Member {
	now := s.clock.Now()
	name, _, _ := strings.Cut(email, "@")
	return Member{
		TenantID: tenantID, UserID: ident.New(), Email: email, Verified: email != "", Name: name,
		Role: role, Status: Active, CreatedAt: now, UpdatedAt: now,
	}
}

// tenantOrFirst gives the id of a tenant that exists: that one, or the
// operator's where it is empty.
func (s *Service) tenantOrFirst(ctx context.Context, tenantID string) (string, error) {
	err := ErrNotFound
	switch {
	case tenantID == "":
		tenantID, err = s.store.GetOperator(ctx)
		if errors.Is(err, ErrNotFound) {
			return "", fault.New(fault.NotFound, "", "There is no tenant yet; the first start of the server makes one.")
		}
	case ident.Valid(tenantID):
		_, err = s.store.GetTenant(ctx, tenantID)
	}
	if errors.Is(err, ErrNotFound) {
		return "", fault.New(fault.NotFound, "", "There is no such tenant.")
	}
	return tenantID, err
}

// readEmail gives an address as it is stored, or says what is wrong with it.
func readEmail(email string) (stored, wrong string) {
	if email = strings.TrimSpace(email); email == "" {
		return "", ""
	}
	wrong = badName(email) // before invalid bytes are replaced
	email = strings.ToLower(email)
	if at, err := mail.ParseAddress(email); err != nil || at.Address != email || wrong != "" {
		return "", "is not an email address"
	}
	return email, ""
}

// slug is a short name: lower-case letters and digits of a name, joined by
// single hyphens, at most 48.
func slug(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r < '0' || r > 'z' || r > '9' && r < 'a' })
	s := strings.Join(words, "-")
	s = strings.Trim(s[:min(len(s), 48)], "-")
	if s == "" {
		return "tenant-" + strings.ToLower(randomText(6))
	}
	return s
}
