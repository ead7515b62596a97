package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// CreateKey makes a key for the caller. scopes nil means the default ones.
// Errors: 422 with the wrong fields; SCOPE_NOT_HELD for a scope that the
// caller may not grant.
func (s *Service) CreateKey(ctx context.Context, who authz.Caller, name string, scopes []authz.Scope) (Key, RawKey, error) {
	var wrong []fault.Field
	if message := badName(name); message != "" {
		wrong = append(wrong, fault.Field{Field: "name", Message: message})
	}
	if scopes != nil {
		known, unknown := knownScopes(scopes)
		scopes, wrong = known, append(wrong, unknown...)
	}
	if wrong != nil {
		return Key{}, "", fault.BadFields(wrong...)
	}
	scopes, err := grantable(who, scopes)
	if err != nil {
		return Key{}, "", err
	}
	var key Key
	var raw RawKey
	err = s.write(ctx, func(tx txn.Tx) error {
		raw = NewRawKey()
		key = s.newKey(who.TenantID, who.UserID, name, raw, scopes)
		if err := s.store.CreateKeyTx(tx, key, raw.Hash()); err != nil {
			return err
		}
		if err := s.record(tx, who, keyCreated(key)); err != nil {
			return err
		}
		return txn.Answer(tx, created(key, raw))
	})
	return key, raw, err
}

// Keys lists the caller's own keys, newest first, revoked ones included.
func (s *Service) Keys(ctx context.Context, who authz.Caller) ([]Key, error) {
	return s.store.ListKeys(ctx, who.TenantID, who.UserID)
}

// RevokeKey ends one of the caller's own keys, for good and at once. Revoking
// again changes nothing. Another member's key is 404.
func (s *Service) RevokeKey(ctx context.Context, who authz.Caller, keyID string) error {
	if !ident.Valid(keyID) {
		return fault.NoSuch("key")
	}
	err := s.db.Write(ctx, func(tx txn.Tx) error {
		key, err := s.store.GetKeyTx(tx, who.TenantID, keyID)
		if err != nil {
			return err
		}
		if key.UserID != who.UserID {
			return ErrNotFound
		}
		return s.revoke(tx, who, key)
	})
	return gone(err, "key")
}

// revoke ends a key, unless it is revoked already.
func (s *Service) revoke(tx txn.Tx, who authz.Caller, key Key) error {
	if key.Status == Revoked {
		return nil
	}
	if _, err := s.store.RevokeKeyTx(tx, key.TenantID, key.UserID, key.KeyID, s.clock.Now()); err != nil {
		return err
	}
	tx.AfterCommit(func() { s.drop(keyKind, key.Prefix, key.KeyID) })
	return s.record(tx, who, audit.Entry{Action: "api_key.revoked", TargetType: "api_key", TargetID: key.KeyID})
}

// keyCreated is what the audit log says of a new key.
func keyCreated(k Key) audit.Entry {
	details, _ := json.Marshal(struct { // strings alone
		Name   string        `json:"name"`
		Prefix string        `json:"prefix"`
		UserID string        `json:"user_id"`
		Scopes []authz.Scope `json:"scopes"`
	}{k.Name, k.Prefix, k.UserID, k.Scopes})
	return audit.Entry{Action: "api_key.created", TargetType: "api_key", TargetID: k.KeyID, Details: details}
}

// newKey is the record of a new key.
func (s *Service) newKey(tenantID, userID, name string, raw RawKey, scopes []authz.Scope) Key {
	return Key{
		TenantID: tenantID, KeyID: ident.New(), UserID: userID, Name: strings.TrimSpace(name),
		Prefix: raw.Prefix(), Scopes: scopes, Status: Active, CreatedAt: s.clock.Now(),
	}
}

// write commits a closure that draws unique values at random, and draws again
// where one was taken.
func (s *Service) write(ctx context.Context, do func(txn.Tx) error) error {
	var err error
	for range 4 {
		if err = s.db.Write(ctx, do); !errors.Is(err, ErrTaken) {
			return err
		}
	}
	return err
}

func badName(name string) string {
	switch n := utf8.RuneCountInString(strings.TrimSpace(name)); {
	case n == 0:
		return "is required"
	case n > mostNameLen:
		return fmt.Sprintf("is longer than %d characters", mostNameLen)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "holds characters that cannot be shown"
	}
	return ""
}

// timeOrNull is a time as the API sends it: null where there is none.
func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
