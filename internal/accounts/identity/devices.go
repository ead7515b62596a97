package identity

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// KeyCookieName is the name of the cookie in which a client may send a key or a
// stream token.
const KeyCookieName = "svc_auth_token"

// devices shows people the sessions and keys with which they are signed in, and
// ends them.
type devices struct {
	db       txn.Writer
	store    Store
	clock    clock.Clock
	auth     *Authenticator
	keys     *Keys
	sessions *Sessions
}

func (d devices) routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/auth/logout", ID: "logout", Tag: "Auth",
			Summary: "Sign out",
			Doc: "Ends the browser session of this request and deletes its cookie. " +
				"A request that is authenticated by a key revokes that key permanently.",
			HalfOpen: true, AnswerOf: reflect.TypeFor[LoggedOut](),
		}, d.logout),
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/auth/sse-tokens", ID: "mintSseToken", Tag: "Auth",
			Summary: "Create a token for event streams",
			Doc: "The token opens event streams by GET for 60 seconds, with those of the scopes sessions:read, runs:read, agents:read, " +
				"notifications:read and runs:create that the caller has; with runs:create it also starts runs at the routes of " +
				"front ends. Open streams stay open after that, until the key or session that created the token ends.",
			Scopes: streamScopes,
		}, d.mintStreamToken),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/me/sessions", ID: "listMeSessions", Tag: "Auth",
			Summary: "List the caller's active sessions and keys",
			Doc: "The active browser sessions and keys of the caller in this company, most recently used first. " +
				"A key sees other keys only with the scope api_keys:read.",
		}, d.listDevices),
		route.Action(route.Row{
			Method: "DELETE", Path: "/api/v1/me/sessions/{keyId}", ID: "revokeMeSession", Tag: "Auth",
			Summary: "End a session or revoke a key",
			Doc: "Ends one of the caller's own browser sessions or keys, immediately and permanently. Ending it again succeeds. " +
				"A key needs the scope api_keys:write to end anything but itself.",
			Errors: []int{404},
		}, d.endDevice),
	}
}

// LoggedOut answers POST /auth/logout.
type LoggedOut struct {
	OK             bool    `json:"ok"`
	KeyID          *string `json:"key_id" doc:"The revoked key; null if a browser session was ended."`
	AlreadyRevoked bool    `json:"already_revoked,omitzero"`
}

func (d devices) logout(ctx context.Context, who authz.Caller, _ *nothing) (*route.Reply, error) {
	var answer *route.Reply
	err := d.db.Write(ctx, func(tx txn.Tx) error {
		out, cookie := LoggedOut{OK: true}, NoSessionCookie()
		var err error
		if who.SessionID != "" {
			_, err = d.endSession(tx, who, who.SessionID)
		} else {
			out.KeyID = &who.KeyID
			out.AlreadyRevoked, err = d.endKey(tx, who, who.KeyID)
			cookie = nil
			if who.Method == "cookie" {
				cookie = &route.Cookie{Name: KeyCookieName}
			}
		}
		if err != nil {
			return notFound(err, "session")
		}
		body, err := json.Marshal(out)
		if err != nil {
			return err
		}
		answer = &route.Reply{JSON: body, Cookie: cookie}
		return txn.Answer(tx, answer)
	})
	return answer, err
}

// SignOut ends the browser session of a caller, and returns the cookie that takes its
// token away.
func (s *Service) SignOut(ctx context.Context, who authz.Caller) (*route.Cookie, error) {
	reply, err := s.devices.logout(ctx, who, nil)
	if err != nil {
		return nil, err
	}
	return reply.Cookie, nil
}

// StreamTokenMade answers POST /auth/sse-tokens.
type StreamTokenMade struct {
	route.Repetition
	Token     string    `json:"token,omitzero" doc:"Send it as ?token=, in the header Authorization or in the cookie svc_auth_token."`
	ExpiresAt time.Time `json:"expires_at"`
}

// WithoutSecret implements route.ShownOnce.
func (t StreamTokenMade) WithoutSecret() any {
	return StreamTokenMade{Repetition: route.Repeated, ExpiresAt: t.ExpiresAt}
}

// LogValue implements slog.LogValuer.
func (t StreamTokenMade) LogValue() slog.Value { return slog.TimeValue(t.ExpiresAt) }

func (d devices) mintStreamToken(_ context.Context, who authz.Caller, _ *nothing) (StreamTokenMade, error) {
	token, expires, err := d.auth.StreamToken(who)
	return StreamTokenMade{Token: token, ExpiresAt: expires}, err
}

// ActiveSession is a browser session or a key that is valid.
type ActiveSession struct {
	KeyID      string        `json:"key_id" doc:"ID of the key or the session."`
	Kind       string        `json:"kind" enum:"session,api_key"`
	Name       string        `json:"name"`
	Prefix     string        `json:"prefix"`
	Scopes     []authz.Scope `json:"scopes"`
	Status     Status        `json:"status" enum:"active"`
	IsCurrent  bool          `json:"is_current" doc:"Whether it authenticates this request."`
	Method     string        `json:"method,omitzero" doc:"How the browser signed in."`
	Address    string        `json:"address,omitzero" doc:"Network address from which the browser signed in."`
	CreatedAt  time.Time     `json:"created_at"`
	ExpiresAt  *time.Time    `json:"expires_at"`
	LastUsedAt *time.Time    `json:"last_used_at"`
}

// DeviceList answers GET /me/sessions.
type DeviceList struct {
	Items    []ActiveSession `json:"items"`
	Sessions []ActiveSession `json:"sessions" deprecated:"true" doc:"The same as items."`
	Total    int             `json:"total"`
}

func (d devices) listDevices(ctx context.Context, who authz.Caller, _ *nothing) (DeviceList, error) {
	sessions, err := d.store.ListSessions(ctx, who.TenantID, who.UserID)
	if err != nil {
		return DeviceList{}, err
	}
	keys, err := d.store.ListKeys(ctx, who.TenantID, who.UserID)
	if err != nil {
		return DeviceList{}, err
	}
	now := d.clock.Now()
	list := make([]ActiveSession, 0, len(sessions)+len(keys))
	for _, s := range sessions {
		scopes := authz.ScopesOf(who.Role)
		if s.KeyID != "" {
			i := slices.IndexFunc(keys, func(k Key) bool { return k.KeyID == s.KeyID && k.live(now) })
			if i < 0 {
				continue // it ended with its key
			}
			scopes = keys[i].Scopes
		}
		if !s.live(now) {
			continue
		}
		list = append(list, ActiveSession{
			KeyID: s.SessionID, Kind: "session", Name: cmp.Or(s.Label, "Browser"), Prefix: s.Prefix,
			Scopes: scopes, Status: Active, IsCurrent: s.SessionID == who.SessionID,
			Method: s.Method, Address: s.Address, CreatedAt: s.CreatedAt,
			ExpiresAt: timeOrNull(s.ExpiresAt()), LastUsedAt: timeOrNull(s.LastUsedAt),
		})
	}
	for _, k := range keys {
		if !k.live(now) || k.KeyID != who.KeyID && !mayManageKeys(who, "api_keys:read") {
			continue
		}
		list = append(list, ActiveSession{
			KeyID: k.KeyID, Kind: "api_key", Name: k.Name, Prefix: k.Prefix, Scopes: k.Scopes, Status: Active,
			IsCurrent: k.KeyID == who.KeyID, CreatedAt: k.CreatedAt,
			ExpiresAt: timeOrNull(k.ExpiresAt), LastUsedAt: timeOrNull(k.LastUsedAt),
		})
	}
	slices.SortFunc(list, lastUsedFirst)
	return DeviceList{Items: list, Sessions: list, Total: len(list)}, nil
}

// mayManageKeys reports whether a caller may see or end other keys of the same
// person: a signed-in person always may, a key needs the scope.
func mayManageKeys(who authz.Caller, scope authz.Scope) bool {
	return who.SignedIn() || who.Has(scope)
}

// lastUsedFirst orders by the time of the last use. What was never used comes
// last, newest first.
func lastUsedFirst(a, b ActiveSession) int {
	used := func(d ActiveSession) time.Time {
		if d.LastUsedAt == nil {
			return time.Time{}
		}
		return *d.LastUsedAt
	}
	return cmp.Or(used(b).Compare(used(a)), strings.Compare(b.KeyID, a.KeyID))
}

// live reports whether the key is neither revoked nor expired.
func (k Key) live(now time.Time) bool {
	return k.Status == Active && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

type endDeviceIn struct {
	KeyID string `path:"keyId" doc:"ID of a browser session or a key."`
}

// EndedDevice answers DELETE /me/sessions/{keyId}.
type EndedDevice struct {
	OK             bool   `json:"ok"`
	KeyID          string `json:"key_id"`
	AlreadyRevoked bool   `json:"already_revoked,omitzero"`
}

func (d devices) endDevice(ctx context.Context, who authz.Caller, in *endDeviceIn) (EndedDevice, error) {
	if !ident.Valid(in.KeyID) {
		return EndedDevice{}, fault.NewNotFound("session")
	}
	answer := EndedDevice{OK: true, KeyID: in.KeyID}
	err := d.db.Write(ctx, func(tx txn.Tx) error {
		already, err := d.endSession(tx, who, in.KeyID)
		if errors.Is(err, ErrNotFound) {
			already, err = d.endKey(tx, who, in.KeyID)
		}
		if err != nil {
			return notFound(err, "session")
		}
		answer.AlreadyRevoked = already
		return txn.Answer(tx, answer)
	})
	return answer, err
}

// endSession ends a browser session of the caller. Errors: ErrNotFound for one
// that is not in the tenant; 403 for another member's.
func (d devices) endSession(tx txn.Tx, who authz.Caller, sessionID string) (already bool, err error) {
	session, err := d.store.GetSessionTx(tx, sessionID)
	if err != nil {
		return false, err
	}
	if session.TenantID != who.TenantID {
		return false, ErrNotFound
	}
	if err := mayEnd(who, session.UserID, session.SessionID == who.SessionID); err != nil {
		return false, err
	}
	now := d.clock.Now()
	if !session.live(now) {
		return true, nil
	}
	if err := d.sessions.end(tx, session, now); err != nil {
		return false, err
	}
	action := "auth.session_ended"
	if session.SessionID == who.SessionID {
		action = "auth.signed_out"
	}
	return false, audit.Write(d.keys.audit, tx, who, audit.Entry{Action: action, TargetType: "session", TargetID: session.SessionID})
}

// endKey revokes a key of the caller. Errors: as endSession.
func (d devices) endKey(tx txn.Tx, who authz.Caller, keyID string) (already bool, err error) {
	key, err := d.store.GetKeyTx(tx, who.TenantID, keyID)
	if err != nil {
		return false, err
	}
	if err := mayEnd(who, key.UserID, key.KeyID == who.KeyID); err != nil {
		return false, err
	}
	return key.Status == Revoked, d.keys.revoke(tx, who, key)
}

func mayEnd(who authz.Caller, userID string, current bool) error {
	switch {
	case userID != who.UserID:
		return fault.New(fault.Forbidden, "", "This session or key belongs to another member of the company; only they can end it here.")
	case !current && !mayManageKeys(who, "api_keys:write"):
		return fault.New(fault.Forbidden, "MISSING_SCOPE", "A key needs the scope api_keys:write to end other sessions and keys.")
	}
	return nil
}
