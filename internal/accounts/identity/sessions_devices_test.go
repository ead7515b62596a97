package identity_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// devicesPath is the path of the caller's sessions and keys.
const devicesPath = "/api/v1/me/sessions"

// devices is a member with two browser sessions and two keys, next to a
// colleague and a stranger with one of each.
type devices struct {
	node
	ours, theirs, colleague     identity.Grant
	phone, laptop               identity.Session
	colleagues, strangers       identity.Session
	phoneRaw, laptopRaw, others identity.RawSession // others: the colleague's
	owner, narrow, browser      authz.Caller        // the member, by all keys and the laptop
}

func newDevices(t *testing.T, db *sqldb.DB) devices {
	t.Helper()
	d := devices{node: newNode(db, clock.NewFake())}
	d.ours, d.theirs = d.tenant(t, "acme"), d.tenant(t, "other")
	var err error
	d.colleague, err = d.Keys.Grant(t.Context(), d.ours.TenantID, authz.Admin, []authz.Scope{"*"}, "theirs", "bob@example.com")
	if err != nil {
		t.Fatal(err)
	}
	d.colleagues, d.others = d.signIn(t, d.ours.TenantID, d.colleague.UserID, identity.Device{})
	d.strangers, _ = d.signIn(t, d.theirs.TenantID, d.theirs.UserID, identity.Device{})
	d.owner = d.authenticated(t, d.ours.RawKey)
	d.pass(time.Minute)
	_, raw, err := d.Keys.Create(t.Context(), d.owner, "narrow", []authz.Scope{"runs:read"})
	if err != nil {
		t.Fatal(err)
	}
	d.narrow = d.authenticated(t, raw)
	d.phone, d.phoneRaw = d.signIn(t, d.ours.TenantID, d.ours.UserID, identity.Device{Label: "Phone", Address: "192.0.2.7", Method: "otp"})
	d.pass(time.Minute)
	d.laptop, d.laptopRaw = d.signIn(t, d.ours.TenantID, d.ours.UserID, identity.Device{})
	d.browser = d.inside(t, d.laptopRaw)
	return d
}

// list returns the items of the caller's list.
func (d devices) list(t *testing.T, who authz.Caller) (items []map[string]any) {
	t.Helper()
	got, err := call(t, d.node, who, "GET", devicesPath, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got["items"], got["sessions"]); diff != "" || got["total"] != float64(len(got["items"].([]any))) {
		t.Errorf("list %v %s", got, diff)
	}
	for _, item := range got["items"].([]any) {
		items = append(items, item.(map[string]any))
	}
	return items
}

// wantNames compares the kinds and names in the caller's list; * is the current
// one.
func (d devices) wantNames(t *testing.T, who authz.Caller, want ...string) {
	t.Helper()
	var names []string
	for _, item := range d.list(t, who) {
		name := fmt.Sprint(item["kind"], " ", item["name"])
		if item["is_current"] == true {
			name += " *"
		}
		names = append(names, name)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func (d devices) end(t *testing.T, who authz.Caller, id string) (map[string]any, error) {
	t.Helper()
	return call(t, d.node, who, "DELETE", devicesPath+"/{keyId}", id, "")
}

func TestListDevices(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		d := newDevices(t, db)
		d.wantNames(t, d.browser, "session Browser *", "session Phone", "api_key narrow", "api_key owner")
		d.wantNames(t, d.owner, "session Browser", "session Phone", "api_key narrow", "api_key owner *")
		d.wantNames(t, d.narrow, "session Browser", "session Phone", "api_key narrow *")
		want := map[string]any{
			"key_id": d.phone.SessionID, "kind": "session", "name": "Phone", "prefix": d.phone.Prefix, "scopes": []any{"*"}, "status": "active",
			"is_current": false, "method": "otp", "address": "192.0.2.7",
			"created_at": "2026-09-10T12:01:00Z", "last_used_at": "2026-09-10T12:01:00Z", "expires_at": "2026-12-09T12:01:00Z",
		}
		if diff := cmp.Diff(want, d.list(t, d.browser)[1]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEndDeviceRefuses(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		d := newDevices(t, db)
		for name, tt := range map[string]struct {
			who  authz.Caller
			id   string
			kind fault.Kind
			code string
		}{
			"an invalid ID":               {d.owner, "\x00", fault.NotFound, "NOT_FOUND"},
			"an unknown ID":               {d.owner, d.ours.TenantID, fault.NotFound, "NOT_FOUND"},
			"another company's session":   {d.owner, d.strangers.SessionID, fault.NotFound, "NOT_FOUND"},
			"another company's key":       {d.owner, d.theirs.KeyID, fault.NotFound, "NOT_FOUND"},
			"a colleague's session":       {d.owner, d.colleagues.SessionID, fault.Forbidden, "FORBIDDEN"},
			"a colleague's key":           {d.browser, d.colleague.KeyID, fault.Forbidden, "FORBIDDEN"},
			"a session by a narrow key":   {d.narrow, d.phone.SessionID, fault.Forbidden, "MISSING_SCOPE"},
			"another key by a narrow key": {d.narrow, d.ours.KeyID, fault.Forbidden, "MISSING_SCOPE"},
		} {
			_, err := d.end(t, tt.who, tt.id)
			if f := fault.From(err); f == nil || f.Kind != tt.kind || f.Code != tt.code {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, raw := range []identity.RawSession{d.phoneRaw, d.laptopRaw, d.others} {
			d.inside(t, raw)
		}
	})
}

func TestEndDevice(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		d := newDevices(t, db)
		for i, id := range []string{
			d.phone.SessionID, d.phone.SessionID, d.ours.KeyID, d.ours.KeyID, d.laptop.SessionID, d.laptop.SessionID,
		} {
			got, err := d.end(t, d.browser, id)
			want := map[string]any{"ok": true, "key_id": id}
			if i%2 == 1 {
				want["already_revoked"] = true
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Error(err, diff)
			}
		}
		d.outside(t, d.phoneRaw, fault.Unauthenticated, "AUTH_ERROR")
		d.outside(t, d.laptopRaw, fault.Unauthenticated, "AUTH_ERROR")
		d.wantNames(t, d.narrow, "api_key narrow *")
		if _, err := d.end(t, d.narrow, d.narrow.KeyID); err != nil { // itself, whatever its scopes
			t.Error(err)
		}
	})
}

func TestLogout(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		g := n.tenant(t, "acme")
		_, raw := n.signIn(t, g.TenantID, g.UserID, identity.Device{NeedsFactor: true})
		_, other := n.signIn(t, g.TenantID, g.UserID, identity.Device{})
		browser, owner := n.inside(t, raw), n.authenticated(t, g.RawKey)
		logout := func(who authz.Caller, body, cookie string) {
			t.Helper()
			rows := n.Routes()
			row := rows[slices.IndexFunc(rows, func(r route.Route) bool { return r.ID == "logout" })]
			answer, err := row.Call(t.Context(), who, reflect.New(row.In).Interface())
			if err != nil {
				t.Fatal(err)
			}
			got := answer.(*route.Reply)
			set := route.Cookie{}
			if got.Cookie != nil {
				set = *got.Cookie
			}
			if string(got.JSON) != body || set != (route.Cookie{Name: cookie}) {
				t.Errorf("answer %s, cookie %+v", got.JSON, set)
			}
		}
		logout(browser, `{"ok":true,"key_id":null}`, "svc_session")
		n.outside(t, raw, fault.Unauthenticated, "AUTH_ERROR")
		n.inside(t, other)
		logout(browser, `{"ok":true,"key_id":null}`, "svc_session") // two at once
		logout(owner, `{"ok":true,"key_id":"`+g.KeyID+`"}`, "")
		_, err := n.Authenticate(t.Context(), string(g.RawKey))
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
		owner.Method = "cookie"
		logout(owner, `{"ok":true,"key_id":"`+g.KeyID+`","already_revoked":true}`, "svc_auth_token")
		n.inside(t, other)
	})
}
