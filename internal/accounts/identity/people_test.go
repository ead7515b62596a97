package identity_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/mail"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// town is a node with people in several tenants, and their notifications.
type town struct {
	node
	t      *testing.T
	db     *sqldb.DB
	people *identity.People

	mailing bool // letters are sent
	mu      sync.Mutex
	letters []mail.Message
	joined  []identity.Joined
	log     []string // "action by user about target"
	agents  map[string]string
	gone    []string
}

func newTown(t *testing.T, db *sqldb.DB) *town {
	clk := clock.NewFake()
	w := &town{t: t, db: db, agents: map[string]string{}, mailing: true}
	w.node = node{clock: clk, elapsed: new(atomic.Int64)}
	w.Service = identity.New(identity.Config{
		DB: db, Store: identitysql.New(db), Clock: clk, Audit: w,
		Elapsed: func() time.Duration { return time.Duration(w.elapsed.Load()) },
	})
	w.people = identity.NewPeople(w.Service, identity.PeopleDeps{
		Store: identitysql.NewPeople(db), Mail: w, Cursors: page.NewCursors([]byte("0123456789abcdef")),
		PublicURL: func() string { return "https://agents.example.com" },
		Notify: func(tx txn.Tx, j identity.Joined) error {
			tx.AfterCommit(func() { w.joined = append(w.joined, j) })
			return nil
		},
		HasAgent: func(_ context.Context, tenantID, agentID string) (bool, error) {
			return w.agents[agentID] == tenantID, nil
		},
		OnRemove: []func(txn.Tx, string, string) error{func(tx txn.Tx, _, userID string) error {
			tx.AfterCommit(func() { w.gone = append(w.gone, userID) })
			return nil
		}},
	})
	return w
}

// Record implements audit.Recorder.
func (w *town) Record(tx txn.Tx, who authz.Caller, e audit.Entry) error {
	if who.TenantID == "" {
		return errors.New("an audit entry without an actor")
	}
	if e.Action == "api_key.created" { // of the people that a test begins with
		return nil
	}
	tx.AfterCommit(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.log = append(w.log, e.Action)
	})
	return nil
}

// Configured implements mail.Outbox.
func (w *town) Configured() bool { return w.mailing }

// Send implements mail.Outbox.
func (w *town) Send(tx txn.Tx, _ string, m mail.Message) error {
	tx.AfterCommit(func() { w.letters = append(w.letters, m) })
	return nil
}

// token takes the token out of the link in the last letter.
func (w *town) token() string {
	w.t.Helper()
	return linkToken(w.t, w.letters[len(w.letters)-1].Text)
}

func linkToken(t *testing.T, text string) string {
	t.Helper()
	for word := range strings.FieldsSeq(text) {
		if u, err := url.Parse(word); err == nil && u.Path == "/invite" {
			return u.Query().Get("token")
		}
	}
	t.Fatalf("there is no link in %q", text)
	return ""
}

// tenant creates a tenant and returns its owner.
func (w *town) tenant(name, email string) authz.Caller {
	w.t.Helper()
	g, err := w.Tenants.Create(w.t.Context(), name, email)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.authenticated(w.t, g.RawKey)
}

// member adds a member to a tenant and returns them with a key.
func (w *town) member(of authz.Caller, role authz.Role, email string) (authz.Caller, identity.RawKey) {
	w.t.Helper()
	g, err := w.Keys.Grant(w.t.Context(), of.TenantID, role, []authz.Scope{authz.Wildcard}, "k", email)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.authenticated(w.t, g.RawKey), g.RawKey
}

// send plays the edge for "METHOD /path", below /api/v1.
func (w *town) send(who authz.Caller, request, body string) (map[string]any, error) {
	w.t.Helper()
	out, _, err := w.full(who, request, body)
	return out, err
}

func (w *town) full(who authz.Caller, request, body string) (map[string]any, *route.Cookie, error) {
	w.t.Helper()
	method, target, _ := strings.Cut(request, " ")
	target, query, _ := strings.Cut(target, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		w.t.Fatal(err)
	}
	best := -1
	var chosen route.Route
	for _, r := range append(w.people.Routes(), w.Routes()...) {
		if n := specificity(r.Path, "/api/v1"+target); r.Method == method && n > best {
			best, chosen = n, r
		}
	}
	if best < 0 {
		w.t.Fatalf("there is no %s", request)
	}
	if !chosen.Public {
		if err := who.Check(chosen.Role, chosen.Scopes...); err != nil {
			return nil, nil, err
		}
	}
	in := reflect.New(chosen.In)
	pattern, path := strings.Split(chosen.Path, "/"), strings.Split("/api/v1"+target, "/")
	for i := range chosen.In.NumField() {
		f, at := chosen.In.Field(i), in.Elem().Field(i)
		switch {
		case f.Tag.Get("path") != "":
			at.SetString(path[slices.Index(pattern, "{"+f.Tag.Get("path")+"}")])
		case f.Tag.Get("query") != "":
			at.SetString(params.Get(f.Tag.Get("query")))
		case at.Type() == reflect.TypeFor[jsontext.Value]():
			at.SetBytes([]byte(body))
		case body != "":
			if err := schema.For(f.Type).DecodeInto([]byte(body), at.Addr().Interface(), false); err != nil {
				return nil, nil, err
			}
		}
	}
	answer, err := chosen.Call(w.t.Context(), who, in.Interface())
	if err != nil {
		return nil, nil, err
	}
	var text []byte
	var cookie *route.Cookie
	if reply, ok := answer.(*route.Reply); ok {
		text, cookie = reply.JSON, reply.Cookie
	} else if text, err = json.Marshal(answer); err != nil {
		w.t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		w.t.Fatal(err)
	}
	return object, cookie, nil
}

// specificity returns how many parts of a path a pattern names; -1: no match.
func specificity(pattern, path string) (n int) {
	parts, said := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(parts) != len(said) {
		return -1
	}
	for i, part := range parts {
		switch {
		case part == said[i]:
			n++
		case !strings.HasPrefix(part, "{"):
			return -1
		}
	}
	return n
}

// ok is send that must succeed.
func (w *town) ok(who authz.Caller, request, body string) map[string]any {
	w.t.Helper()
	out, err := w.send(who, request, body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", request, body, err)
	}
	return out
}

// refused is send that must be refused with a code.
func (w *town) refused(who authz.Caller, request, body string, kind fault.Kind, code string) {
	w.t.Helper()
	out, err := w.send(who, request, body)
	if err == nil {
		w.t.Errorf("%s %s: %v, want %s", request, body, out, code)
		return
	}
	if f := fault.From(err); f.Kind != kind || f.Code != code {
		w.t.Errorf("%s %s: %v, want %s", request, body, err, code)
	}
}

func (w *town) same(got, want any) {
	w.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Error(diff)
	}
}

func eachTown(t *testing.T, test func(w *town)) {
	t.Helper()
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(newTown(t, db)) })
}

func names(list any, field string) []string {
	out := []string{}
	for _, one := range list.([]any) {
		out = append(out, fmt.Sprint(one.(map[string]any)[field]))
	}
	return out
}

func TestWhoMayChangeWhom(t *testing.T) {
	eachTown(t, func(w *town) {
		owner := w.tenant("Acme", "owner@example.com")
		admin, _ := w.member(owner, authz.Admin, "admin@example.com")
		other := w.tenant("Other", "other@example.com")
		developer, _ := w.member(owner, authz.Developer, "dev@example.com")
		narrow := admin
		narrow.Scopes = []authz.Scope{"users:read"}
		role := func(r authz.Role) string { return fmt.Sprintf(`{"role":%q}`, r) }
		for _, c := range []struct {
			who     authz.Caller
			request string
			body    string
			kind    fault.Kind
			code    string
		}{
			{admin, "PUT /users/" + owner.UserID + "/role", role(authz.Viewer), fault.Forbidden, "FORBIDDEN"},
			{owner, "PUT /users/" + owner.UserID + "/role", role(authz.Viewer), fault.Forbidden, "FORBIDDEN"},
			{admin, "PUT /users/" + admin.UserID + "/role", role(authz.Owner), fault.Forbidden, "FORBIDDEN"},
			{owner, "PUT /users/" + admin.UserID + "/role", role(authz.Owner), fault.Forbidden, "FORBIDDEN"},
			{owner, "PUT /users/" + admin.UserID + "/role", `{"role":"king"}`, fault.Invalid, "VALIDATION_ERROR"},
			{owner, "PUT /users/" + admin.UserID + "/role", `{}`, fault.Invalid, "VALIDATION_ERROR"},
			{developer, "PUT /users/" + developer.UserID + "/role", role(authz.Admin), fault.Forbidden, "FORBIDDEN"},
			{narrow, "PUT /users/" + developer.UserID + "/role", role(authz.Viewer), fault.Forbidden, "MISSING_SCOPE"},
			{admin, "PUT /users/" + owner.UserID + "/suspend", "", fault.Forbidden, "FORBIDDEN"},
			{admin, "PUT /users/" + owner.UserID + "/unsuspend", "", fault.Forbidden, "FORBIDDEN"},
			{admin, "DELETE /users/" + owner.UserID, "", fault.Forbidden, "FORBIDDEN"},
			{admin, "POST /users/" + admin.UserID + "/transfer-ownership", "", fault.Forbidden, "FORBIDDEN"},
			{owner, "POST /users/" + owner.UserID + "/transfer-ownership", "", fault.Conflict, "CONFLICT"},
			{other, "GET /users/" + admin.UserID, "", fault.NotFound, "NOT_FOUND"},
			{other, "PUT /users/" + admin.UserID + "/role", role(authz.Viewer), fault.NotFound, "NOT_FOUND"},
			{other, "PUT /users/" + admin.UserID + "/suspend", "", fault.NotFound, "NOT_FOUND"},
			{other, "DELETE /users/" + admin.UserID, "", fault.NotFound, "NOT_FOUND"},
			{other, "POST /users/" + admin.UserID + "/transfer-ownership", "", fault.NotFound, "NOT_FOUND"},
			{admin, "DELETE /users/nonsense", "", fault.NotFound, "NOT_FOUND"},
		} {
			w.refused(c.who, c.request, c.body, c.kind, c.code)
		}
		if len(w.log) > 0 {
			t.Errorf("what was refused is in the log: %v", w.log)
		}
		w.same(names(w.ok(owner, "GET /users", "")["items"], "role"), []string{"owner", "admin", "developer"})
	})
}

// A role counts with the next request, on this node and soon on others.
func TestRoleCountsAtOnce(t *testing.T) {
	eachTown(t, func(w *town) {
		owner := w.tenant("Acme", "owner@example.com")
		dev, key := w.member(owner, authz.Developer, "dev@example.com")
		elsewhere := newNode(w.db, w.clock)
		elsewhere.authenticated(t, key)
		w.same(w.ok(owner, "PUT /users/"+dev.UserID+"/role", `{"role":"admin"}`),
			map[string]any{"updated": true, "user_id": dev.UserID, "role": "admin"})
		if now := w.authenticated(t, key); now.Role != authz.Admin {
			t.Errorf("role %s", now.Role)
		}
		elsewhere.elapsed.Add(int64(time.Second))
		if now := elsewhere.authenticated(t, key); now.Role != authz.Admin {
			t.Errorf("elsewhere a second later: %s", now.Role)
		}
		w.ok(owner, "PUT /users/"+dev.UserID+"/role", `{"role":"admin"}`)
		w.same(w.log, []string{"user.role_changed"}) // once: the second changed nothing

		// Whoever was an admin a moment ago is none any more, whatever the
		// request was authenticated as.
		before := w.authenticated(t, key)
		w.ok(owner, "PUT /users/"+dev.UserID+"/role", `{"role":"viewer"}`)
		w.refused(before, "POST /users/invites", `{"email":"x@example.com","role":"viewer"}`, fault.Forbidden, "FORBIDDEN")
	})
}

func TestSuspendAndDelete(t *testing.T) {
	eachTown(t, func(w *town) {
		owner := w.tenant("Acme", "owner@example.com")
		dev, key := w.member(owner, authz.Developer, "dev@example.com")
		elsewhere, otherKey := w.member(w.tenant("Other", ""), authz.Viewer, "dev@example.com")
		w.same(w.ok(owner, "PUT /users/"+dev.UserID+"/suspend", ""), map[string]any{"suspended": true, "user_id": dev.UserID})
		_, err := w.Authenticate(t.Context(), string(key))
		wantFault(t, err, fault.Forbidden, "MEMBER_SUSPENDED")
		wantFault(t, w.Valid(t.Context(), dev), fault.Forbidden, "MEMBER_SUSPENDED") // ends streams
		w.same(w.ok(owner, "GET /users/"+dev.UserID, "")["status"], "suspended")
		w.refused(owner, "POST /users/"+dev.UserID+"/transfer-ownership", "", fault.Conflict, "INVALID_STATE_TRANSITION")
		w.same(w.ok(owner, "PUT /users/"+dev.UserID+"/unsuspend", ""),
			map[string]any{"ok": true, "unsuspended": true, "user_id": dev.UserID})
		w.authenticated(t, key)

		session := w.signedIn(dev)
		w.same(w.ok(owner, "DELETE /users/"+dev.UserID, ""), map[string]any{"deleted": true, "user_id": dev.UserID})
		_, err = w.Authenticate(t.Context(), string(key))
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
		_, _, err = w.AuthenticateSession(t.Context(), session)
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
		w.refused(owner, "GET /users/"+dev.UserID, "", fault.NotFound, "NOT_FOUND")
		w.refused(owner, "DELETE /users/"+dev.UserID, "", fault.NotFound, "NOT_FOUND")
		w.same(w.ok(owner, "GET /users", "")["total"], 1.0)
		w.same(w.gone, []string{dev.UserID})
		w.authenticated(t, otherKey) // the person is still who they are elsewhere
		w.same(names(w.ok(elsewhere, "GET /me/tenants", "")["memberships"], "name"), []string{"Other"})
		w.same(w.log, []string{"user.suspended", "user.unsuspended", "user.deleted"})
		// They can be invited again, and get a new ID then.
		w.ok(owner, "POST /users/invites", `{"email":"dev@example.com","role":"viewer"}`)
		if again := w.ok(elsewhere, "POST "+pendingPath(w.ok(elsewhere, "GET /me/tenants", ""))+"/accept", ""); again["user_id"] == dev.UserID {
			t.Error("a member who was taken out came back with what they were")
		}
	})
}

func pendingPath(mine map[string]any) string {
	invite := mine["pending_invites"].([]any)[0].(map[string]any)
	return fmt.Sprintf("/me/invites/%s/%s", invite["tenant_id"], invite["invite_id"])
}

// signedIn opens a browser session and returns its token.
func (w *town) signedIn(who authz.Caller) (token string) {
	w.t.Helper()
	err := w.db.Write(w.t.Context(), func(tx txn.Tx) error {
		_, raw, err := w.Sessions.Open(tx, identity.Member{TenantID: who.TenantID, UserID: who.UserID}, identity.Device{Method: "otp"})
		token = string(raw)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// browser is the caller behind a session.
func (w *town) browser(token string) authz.Caller {
	w.t.Helper()
	who, _, err := w.AuthenticateSession(w.t.Context(), token)
	if err != nil {
		w.t.Fatal(err)
	}
	return who
}

func TestOneOwner(t *testing.T) {
	eachTown(t, func(w *town) {
		owner := w.tenant("Acme", "owner@example.com")
		heirs := make([]authz.Caller, 6)
		for i := range heirs {
			heirs[i], _ = w.member(owner, authz.Viewer, "")
		}
		var done atomic.Int64
		var wg sync.WaitGroup
		for _, heir := range heirs {
			wg.Go(func() {
				out, err := w.send(owner, "POST /users/"+heir.UserID+"/transfer-ownership", "")
				switch {
				case err == nil:
					done.Add(1)
					if diff := cmp.Diff(map[string]any{
						"ok": true, "transferred": true, "new_owner": heir.UserID, "new_owner_id": heir.UserID, "previous_owner": owner.UserID,
					}, out); diff != "" {
						t.Error(diff)
					}
				case !fault.Is(err, fault.Forbidden):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if done.Load() != 1 {
			t.Errorf("%d transfers succeeded", done.Load())
		}
		roles := names(w.ok(heirs[0], "GET /users", "")["users"], "role")
		slices.Sort(roles)
		w.same(roles, []string{"admin", "owner", "viewer", "viewer", "viewer", "viewer", "viewer"})
		w.same(w.log, []string{"tenant.ownership_transferred"})
	})
}

func TestPages(t *testing.T) {
	eachTown(t, func(w *town) {
		owner := w.tenant("Acme", "owner@example.com")
		for i := range 5 {
			w.member(owner, authz.Viewer, fmt.Sprintf("m%d@example.com", i))
			w.ok(owner, "POST /users/invites", fmt.Sprintf(`{"email":"i%d@example.com","role":"viewer"}`, i))
		}
		for _, path := range []string{"/users", "/users/invites"} {
			all := w.ok(owner, "GET "+path, "")
			twin := map[string]string{"/users": "users", "/users/invites": "invites"}[path]
			w.same(all[twin], all["items"])
			if _, paged := all["has_more"]; paged {
				t.Error("paged without a limit")
			}
			var found []string
			for query := "?limit=2"; ; {
				page := w.ok(owner, "GET "+path+query, "")
				w.same(page["total"], all["total"])
				found = append(found, names(page["items"], "id")...)
				if page["has_more"] == false {
					break
				}
				query = "?limit=2&cursor=" + page["cursor"].(string)
			}
			w.same(found, names(all["items"], "id"))
			w.refused(owner, "GET "+path+"?cursor=nonsense", "", fault.Invalid, "INVALID_CURSOR")
		}
	})
}
