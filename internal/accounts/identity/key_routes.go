package identity

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

func (k *Keys) routes() []route.Route {
	const path = "/api/v1/tenants/me/keys"
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: path, ID: "createApiKey", Tag: "Tenants",
			Summary: "Create an API key",
			Doc: "The key belongs to the caller and never has more rights than the caller. It does not expire. " +
				"Without scopes it gets the default ones, as far as the caller holds them. Only this response contains raw_key.",
			Scopes: []authz.Scope{"api_keys:write"}, Role: authz.Admin, Status: 201, Fresh: true,
		}, k.createKey),
		route.Action(route.Row{
			Method: "GET", Path: path, ID: "listApiKeys", Tag: "Tenants",
			Summary: "List the caller's API keys",
			Doc:     "Newest first; revoked keys stay in the list.",
			Scopes:  []authz.Scope{"api_keys:read"},
		}, k.listKeys),
		route.Action(route.Row{
			Method: "DELETE", Path: path + "/{keyId}", ID: "revokeApiKey", Tag: "Tenants",
			Summary: "Revoke an API key",
			Doc:     "Takes effect immediately and cannot be undone. Revoking a revoked key succeeds.",
			Scopes:  []authz.Scope{"api_keys:write"}, Role: authz.Admin, Fresh: true, Errors: []int{404},
		}, k.revokeKey),
	}
}

// APIKey is the record of a key as the API shows it.
type APIKey struct {
	KeyID      string        `json:"key_id"`
	Name       string        `json:"name"`
	Prefix     string        `json:"prefix"`
	Kind       string        `json:"kind" enum:"session,api_key" doc:"Always api_key. For browser sessions see /me/sessions."`
	Scopes     []authz.Scope `json:"scopes"`
	Status     Status        `json:"status" enum:"active,revoked"`
	CreatedAt  time.Time     `json:"created_at"`
	LastUsedAt *time.Time    `json:"last_used_at"`
	ExpiresAt  *time.Time    `json:"expires_at"`
	CreatedBy  string        `json:"created_by"`
}

func shownKey(k Key) APIKey {
	return APIKey{
		KeyID: k.KeyID, Name: k.Name, Prefix: k.Prefix, Kind: "api_key", Scopes: k.Scopes, Status: k.Status, CreatedAt: k.CreatedAt,
		LastUsedAt: timeOrNull(k.LastUsedAt), ExpiresAt: timeOrNull(k.ExpiresAt), CreatedBy: k.UserID,
	}
}

// CreatedKey is a new key with its secret, which no other response shows.
type CreatedKey struct {
	APIKey
	route.Repetition
	RawKey  RawKey `json:"raw_key,omitzero"`
	Warning string `json:"warning,omitzero"`
}

// WithoutSecret implements route.ShownOnce.
func (k CreatedKey) WithoutSecret() any {
	k.RawKey, k.Warning, k.Repetition = "", "", route.Repeated
	return k
}

// LogValue implements slog.LogValuer: some log handlers encode values as JSON,
// which would reveal RawKey.
func (k CreatedKey) LogValue() slog.Value { return slog.StringValue(k.KeyID) }

const rawKeyWarning = "Store raw_key now: it cannot be retrieved again."

type createKeyIn struct {
	Body struct {
		Name   string        `json:"name" required:"true" maxLength:"200" doc:"Must not be empty."`
		Scopes []authz.Scope `json:"scopes,omitzero" nullable:"true" maxItems:"100" doc:"Default: the default scopes, as far as the caller holds them."`
	}
}

func (k *Keys) createKey(ctx context.Context, who authz.Caller, in *createKeyIn) (CreatedKey, error) {
	key, raw, err := k.Create(ctx, who, in.Body.Name, in.Body.Scopes)
	if err != nil {
		return CreatedKey{}, err
	}
	return createdKey(key, raw), nil
}

func createdKey(key Key, raw RawKey) CreatedKey {
	return CreatedKey{APIKey: shownKey(key), RawKey: raw, Warning: rawKeyWarning}
}

// KeyList answers GET /tenants/me/keys.
type KeyList struct {
	Keys  []APIKey `json:"keys"`
	Total int      `json:"total"`
}

func (k *Keys) listKeys(ctx context.Context, who authz.Caller, _ *nothing) (KeyList, error) {
	keys, err := k.List(ctx, who)
	list := KeyList{Keys: make([]APIKey, len(keys)), Total: len(keys)}
	for i, key := range keys {
		list.Keys[i] = shownKey(key)
	}
	return list, err
}

type revokeKeyIn struct {
	KeyID string `path:"keyId"`
}

// RevokedKey answers DELETE /tenants/me/keys/{keyId}.
type RevokedKey struct {
	Revoked bool   `json:"revoked"`
	KeyID   string `json:"key_id"`
}

func (k *Keys) revokeKey(ctx context.Context, who authz.Caller, in *revokeKeyIn) (RevokedKey, error) {
	err := k.Revoke(ctx, who, in.KeyID)
	return RevokedKey{Revoked: err == nil, KeyID: in.KeyID}, err
}
