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
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// KeyCookieName is the cookie that a key or a stream token may come in.
const KeyCookieName = "svc_auth_token"

// deviceRoutes lists the operations on what a person is signed in with.
func (s *Service) deviceRoutes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/auth/logout", ID: "logout", Tag: "Auth",
			Summary: "Sign out",
			Doc: "Ends the browser session that the request comes with and takes its cookie away. " +
				"A request that comes with a key revokes that key, for good.",
			HalfOpen: true, AnswerOf: reflect.TypeFor[LoggedOut](),
		}, s.logout),
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/auth/sse-tokens", ID: "mintSseToken", Tag: "Auth",
			Summary: "Make a token for event streams",
			Doc: "The token opens event streams by GET for 60 seconds, with those of the scopes sessions:read, runs:read, agents:read and " +
				"notifications:read that the caller has. A stream that is open stays open. It ends when the key or session that made it ends.",
			Scopes: streamScopes,
		}, s.mintStreamToken),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/me/sessions", ID: "listMeSessions", Tag: "Auth",
			Summary: "What the caller is signed in with",
			Doc: "The browser sessions and keys of the person in this company that count at present, the last used first. " +
				"A key sees other keys only with the scope api_keys:read.",
		}, s.listDevices),
		route.Action(route.Row{
			Method: "DELETE", Path: "/api/v1/me/sessions/{keyId}", ID: "revokeMeSession", Tag: "Auth",
			Summary: "Sign a device out",
			Doc: "Ends one of the caller's own browser sessions or keys, at once and for good. Ending it again is no error. " +
				"A key ends others than itself only with the scope api_keys:write.",
			Errors: []int{404},
		}, s.endDevice),
	}
}

// LoggedOut answers POST /auth/logout.
type LoggedOut struct {
	OK             bool    `json:"ok"`
	KeyID          *string `json:"key_id" doc:"The key that was revoked; null where a browser session ended."`
	AlreadyRevoked bool    `json:"already_revoked,omitzero"`
}

func (s *Service) logout(ctx context.Context, who authz.Caller, _ *nothing) (*route.Reply, error) {
	var answer *route.Reply
	err := s.db.Write(ctx, func(tx txn.Tx) error {
		out, cookie := LoggedOut{OK: true}, NoSessionCookie()
		var err error
		if who.SessionID != "" {
			_, err = s.endSession(tx, who, who.SessionID)
		} else {
			out.KeyID = &who.KeyID
			out.AlreadyRevoked, err = s.endKey(tx, who, who.KeyID)
			cookie = nil
			if who.Method == "cookie" {
				cookie = &route.Cookie{Name: KeyCookieName}
			}
		}
		if err != nil {
			return gone(err, "session")
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

// StreamTokenMade answers POST /auth/sse-tokens.
type StreamTokenMade struct {
	Token     string    `json:"token" doc:"For ?token=, the header Authorization or the cookie svc_auth_token of event streams."`
	ExpiresAt time.Time `json:"expires_at"`
}

// LogValue implements slog.LogValuer.
func (t StreamTokenMade) LogValue() slog.Value { return slog.TimeValue(t.ExpiresAt) }

func (s *Service) mintStreamToken(_ context.Context, who authz.Caller, _ *nothing) (StreamTokenMade, error) {
	token, expires, err := s.StreamToken(who)
	return StreamTokenMade{token, expires}, err
}

// ActiveSession is what a person is signed in with: a browser session or a key.
type ActiveSession struct {
	KeyID      string        `json:"key_id" doc:"Of the key or of the session."`
	Kind       string        `json:"kind" enum:"session,api_key"`
	Name       string        `json:"name"`
	Prefix     string        `json:"prefix"`
	Scopes     []authz.Scope `json:"scopes"`
	Status     Status        `json:"status" enum:"active"`
	IsCurrent  bool          `json:"is_current" doc:"Whether this request came with it."`
	Method     string        `json:"method,omitzero" doc:"How the browser signed in."`
	Address    string        `json:"address,omitzero" doc:"From where the browser signed in."`
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

func (s *Service) listDevices(ctx context.Context, who authz.Caller, _ *nothing) (DeviceList, error) {
	sessions, err := s.store.ListSessions(ctx, who.TenantID, who.UserID)
	if err != nil {
		return DeviceList{}, err
	}
	keys, err := s.store.ListKeys(ctx, who.TenantID, who.UserID)
	if err != nil {
		return DeviceList{}, err
	}
	now := s.clock.Now()
	list := make([]ActiveSession, 0, len(sessions)+len(keys))
	for _, one := range sessions {
		if !one.live(now) {
			continue
		}
		list = append(list, ActiveSession{
			KeyID: one.SessionID, Kind: "session", Name: cmp.Or(one.Label, "Browser"), Prefix: one.Prefix,
			Scopes: authz.ScopesOf(who.Role), Status: Active, IsCurrent: one.SessionID == who.SessionID,
			Method: one.Method, Address: one.Address, CreatedAt: one.CreatedAt,
			ExpiresAt: timeOrNull(one.ExpiresAt()), LastUsedAt: timeOrNull(one.LastUsedAt),
		})
	}
	for _, k := range keys {
		if !k.live(now) || k.KeyID != who.KeyID && !overKeys(who, "api_keys:read") {
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

// overKeys says whether a caller has a say over other keys of the same person:
// a signed-in person always does, a key by its scope.
func overKeys(who authz.Caller, scope authz.Scope) bool { return who.SessionID != "" || who.Has(scope) }

// lastUsedFirst puts what was never used last, the newest of it first.
func lastUsedFirst(a, b ActiveSession) int {
	used := func(d ActiveSession) time.Time {
		if d.LastUsedAt == nil {
			return time.Time{}
		}
		return *d.LastUsedAt
	}
	return cmp.Or(used(b).Compare(used(a)), strings.Compare(b.KeyID, a.KeyID))
}

// live says whether the key is neither revoked nor expired.
func (k Key) live(now time.Time) bool {
	return k.Status == Active && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

type endDeviceIn struct {
	KeyID string `path:"keyId" doc:"The id of a browser session or of a key."`
}

// EndedDevice answers DELETE /me/sessions/{keyId}.
type EndedDevice struct {
	OK             bool   `json:"ok"`
	KeyID          string `json:"key_id"`
	AlreadyRevoked bool   `json:"already_revoked,omitzero"`
}

func (s *Service) endDevice(ctx context.Context, who authz.Caller, in *endDeviceIn) (EndedDevice, error) {
	if !ident.Valid(in.KeyID) {
		return EndedDevice{}, fault.NoSuch("session")
	}
	answer := EndedDevice{OK: true, KeyID: in.KeyID}
	err := s.db.Write(ctx, func(tx txn.Tx) error {
		already, err := s.endSession(tx, who, in.KeyID)
		if errors.Is(err, ErrNotFound) {
			already, err = s.endKey(tx, who, in.KeyID)
		}
		if err != nil {
			return gone(err, "session")
		}
		answer.AlreadyRevoked = already
		return txn.Answer(tx, answer)
	})
	return answer, err
}

// endSession ends a browser session of the caller's. Errors: ErrNotFound for
// none of the tenant; 403 for somebody else's.
func (s *Service) endSession(tx txn.Tx, who authz.Caller, sessionID string) (already bool, err error) {
	one, err := s.store.GetSessionTx(tx, sessionID)
	if err != nil {
		return false, err
	}
	if one.TenantID != who.TenantID {
		return false, ErrNotFound
	}
	if err := mayEnd(who, one.UserID, one.SessionID == who.SessionID); err != nil {
		return false, err
	}
	now := s.clock.Now()
	if !one.live(now) {
		return true, nil
	}
	return false, s.end(tx, one, now)
}

// endKey revokes a key of the caller's. Errors: as endSession.
func (s *Service) endKey(tx txn.Tx, who authz.Caller, keyID string) (already bool, err error) {
	key, err := s.store.GetKeyTx(tx, who.TenantID, keyID)
	if err != nil {
		return false, err
	}
	if err := mayEnd(who, key.UserID, key.KeyID == who.KeyID); err != nil {
		return false, err
	}
	return key.Status == Revoked, s.revoke(tx, who, key)
}

func mayEnd(who authz.Caller, whose string, current bool) error {
	switch {
	case whose != who.UserID:
		return fault.New(fault.Forbidden, "", "This belongs to another member of the company; only they can end it here.")
	case !current && !overKeys(who, "api_keys:write"):
		return fault.New(fault.Forbidden, "MISSING_SCOPE", "A key that ends other sessions and keys needs the scope api_keys:write.")
	}
	return nil
}
