package identity

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// Keys creates, lists and revokes API keys.
type Keys struct {
	db    txn.Writer
	store Store
	clock clock.Clock
	audit audit.Recorder // nil: not recorded
	auth  *Authenticator
}

// Create creates a key for the caller. scopes nil means the default ones.
// Errors: 422 with the invalid fields; SCOPE_NOT_HELD for a scope that the
// caller may not grant.
func (k *Keys) Create(ctx context.Context, who authz.Caller, name string, scopes []authz.Scope) (Key, RawKey, error) {
	var invalid []fault.Field
	if message := badName(name); message != "" {
		invalid = append(invalid, fault.Field{Field: "name", Message: message})
	}
	if scopes != nil {
		known, unknown := knownScopes(scopes)
		scopes, invalid = known, append(invalid, unknown...)
	}
	if invalid != nil {
		return Key{}, "", fault.BadFields(invalid...)
	}
	scopes, err := grantable(who, scopes)
	if err != nil {
		return Key{}, "", err
	}
	var key Key
	var raw RawKey
	err = k.write(ctx, func(tx txn.Tx) error {
		raw = NewRawKey()
		key = newKey(who.TenantID, who.UserID, name, raw, scopes, k.clock)
		if err := k.store.CreateKeyTx(tx, key, raw.Hash()); err != nil {
			return err
		}
		if err := audit.Write(k.audit, tx, who, keyCreated(key)); err != nil {
			return err
		}
		return txn.Answer(tx, createdKey(key, raw))
	})
	return key, raw, err
}

// List lists the caller's own keys, newest first, revoked ones included.
func (k *Keys) List(ctx context.Context, who authz.Caller) ([]Key, error) {
	return k.store.ListKeys(ctx, who.TenantID, who.UserID)
}

// Revoke ends one of the caller's own keys immediately and permanently.
// Revoking it again changes nothing. Another member's key is 404.
func (k *Keys) Revoke(ctx context.Context, who authz.Caller, keyID string) error {
	if !ident.Valid(keyID) {
		return fault.NewNotFound("key")
	}
	err := k.db.Write(ctx, func(tx txn.Tx) error {
		key, err := k.store.GetKeyTx(tx, who.TenantID, keyID)
		if err != nil {
			return err
		}
		if key.UserID != who.UserID {
			return ErrNotFound
		}
		return k.revoke(tx, who, key)
	})
	return notFound(err, "key")
}

// revoke ends a key unless it is revoked already.
func (k *Keys) revoke(tx txn.Tx, who authz.Caller, key Key) error {
	if key.Status == Revoked {
		return nil
	}
	if _, err := k.store.RevokeKeyTx(tx, key.TenantID, key.UserID, key.KeyID, k.clock.Now()); err != nil {
		return err
	}
	tx.AfterCommit(func() { k.auth.invalidate(keyKind, key.Prefix, key.KeyID) })
	return audit.Write(k.audit, tx, who, audit.Entry{Action: "api_key.revoked", TargetType: "api_key", TargetID: key.KeyID})
}

// Grant is a key that was created for a member, to be shown once.
type Grant struct {
	TenantID string
	UserID   string
	KeyID    string
	RawKey   RawKey
}

// Grant creates a key on behalf of the operator, who may grant any scope. The
// key is for a member of a tenant (of the operator's tenant if tenantID is
// empty): for the member with that email if there is one, and otherwise for a
// new member with that role. scopes nil means the default ones. Errors: 404 for
// an unknown tenant, 422 with the invalid fields, 409 where the member has
// another role.
func (k *Keys) Grant(ctx context.Context, tenantID string, role authz.Role, scopes []authz.Scope, name, email string) (Grant, error) {
	email, badEmail := readEmail(email)
	if scopes == nil {
		scopes = slices.Clone(authz.Defaults)
	}
	scopes, invalid := knownScopes(scopes)
	for field, message := range map[string]string{"name": badName(name), "email": badEmail} {
		if message != "" {
			invalid = append(invalid, fault.Field{Field: field, Message: message})
		}
	}
	if !role.Valid() {
		invalid = append(invalid, fault.Field{Field: "role", Message: "must be one of viewer, developer, admin, owner"})
	}
	if invalid != nil {
		return Grant{}, fault.BadFields(invalid...)
	}
	tenantID, err := k.tenantOrOperator(ctx, tenantID)
	if err != nil {
		return Grant{}, err
	}
	var g Grant
	err = k.write(ctx, func(tx txn.Tx) error {
		m, err := k.memberWith(tx, tenantID, email, role)
		if err != nil {
			return err
		}
		raw := NewRawKey()
		key := newKey(tenantID, m.UserID, name, raw, scopes, k.clock)
		g = Grant{tenantID, m.UserID, key.KeyID, raw}
		if err := k.store.CreateKeyTx(tx, key, raw.Hash()); err != nil {
			return err
		}
		return audit.Write(k.audit, tx, authz.Caller{TenantID: tenantID, Method: audit.CommandLine}, keyCreated(key))
	})
	return g, err
}

// memberWith finds the member with an email, or adds one.
func (k *Keys) memberWith(tx txn.Tx, tenantID, email string, role authz.Role) (Member, error) {
	if email != "" {
		m, err := k.store.GetMemberByEmailTx(tx, tenantID, email)
		if err == nil && m.Role != role {
			return m, fault.New(fault.Conflict, "", "%s is a member with the role %s, not %s; a key has the role of its member.", email, m.Role,
				role)
		}
		if !errors.Is(err, ErrNotFound) {
			return m, err
		}
	}
	m := newMember(tenantID, email, role, k.clock)
	return m, k.store.CreateMemberTx(tx, m)
}

// tenantOrOperator returns the ID of an existing tenant: the given one, or the
// operator's if it is empty.
func (k *Keys) tenantOrOperator(ctx context.Context, tenantID string) (string, error) {
	err := ErrNotFound
	switch {
	case tenantID == "":
		tenantID, err = k.store.GetOperator(ctx)
		if errors.Is(err, ErrNotFound) {
			return "", fault.New(fault.NotFound, "", "There is no tenant yet; the first start of the server creates one.")
		}
	case ident.Valid(tenantID):
		_, err = k.store.GetTenant(ctx, tenantID)
	}
	if errors.Is(err, ErrNotFound) {
		return "", fault.New(fault.NotFound, "", "There is no such tenant.")
	}
	return tenantID, err
}

// write commits a closure that draws unique values at random, and retries where
// one of them is taken.
func (k *Keys) write(ctx context.Context, do func(txn.Tx) error) error {
	var err error
	for range 4 {
		if err = k.db.Write(ctx, do); !errors.Is(err, ErrTaken) {
			return err
		}
	}
	return err
}

// keyCreated is the audit entry of a new key.
func keyCreated(k Key) audit.Entry {
	details, _ := json.Marshal(struct { // strings only: never fails
		Name   string        `json:"name"`
		Prefix string        `json:"prefix"`
		UserID string        `json:"user_id"`
		Scopes []authz.Scope `json:"scopes"`
	}{k.Name, k.Prefix, k.UserID, k.Scopes})
	return audit.Entry{Action: "api_key.created", TargetType: "api_key", TargetID: k.KeyID, Details: details}
}

// newKey returns the record of a new key.
func newKey(tenantID, userID, name string, raw RawKey, scopes []authz.Scope, clk clock.Clock) Key {
	return Key{
		TenantID: tenantID, KeyID: ident.New(), UserID: userID, Name: strings.TrimSpace(name),
		Prefix: raw.Prefix(), Scopes: scopes, Status: Active, CreatedAt: clk.Now(),
	}
}
