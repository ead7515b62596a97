package notification_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/notification/notificationsql"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/mail"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

// office is a harness with people who are notified outside of the app.
type office struct {
	*harness

	db    *sqldb.DB
	queue *worksql.Queue
	box   *outbox
	hooks *hooks
	ada   authz.Caller // has an address
	bob   authz.Caller // has none
}

// outbox is mail that was taken.
type outbox struct {
	off  bool
	sent []string
	text string
	stop string // where the last one is unsubscribed from
}

func (o *outbox) Configured() bool { return !o.off }

func (o *outbox) Send(tx txn.Tx, _ string, m mail.Message) error {
	tx.AfterCommit(func() { o.sent, o.text, o.stop = append(o.sent, m.To+" "+m.Subject), m.Text, m.Unsubscribe })
	return nil
}

// hooks is what was posted, and what is answered: 0 is no answer, 403 that the
// address is refused.
type hooks struct {
	answers []int
	posts   []notification.Post
}

func (h *hooks) Post(_ context.Context, p notification.Post) (int, error) {
	h.posts = append(h.posts, p)
	status := 200
	if len(h.answers) > 0 {
		status, h.answers = h.answers[0], h.answers[1:]
	}
	switch status {
	case 0:
		return 0, errors.New("connection refused")
	case 1:
		return 0, fault.New(fault.Forbidden, "EGRESS_DENIED", "The address is not a public one.")
	}
	return status, nil
}

func offices(t *testing.T, test func(t *testing.T, o *office)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		o := &office{harness: &harness{t: t, clock: clock.NewFake()}, db: db, box: &outbox{}, hooks: &hooks{}}
		o.queue = worksql.New(db, o.clock, nil)
		box, err := secret.NewBox(make([]byte, 32))
		o.fatal(err)
		store := notificationsql.New(db)
		o.Service = notification.New(notification.Deps{
			Store: store, Delivery: store, Writer: db, Clock: o.clock, Hub: event.NewHub(), Queue: o.queue, Mail: o.box, Poster: o.hooks, Box: box,
			CheckURL: func(_ context.Context, _, url string) error {
				if !strings.HasPrefix(url, "https://") {
					return fault.New(fault.Invalid, "", "The URL must begin with https://.")
				}
				return nil
			},
			Public:  func() string { return "https://agentd.example.com" },
			Company: func(context.Context, string) string { return "Acme" },
		})
		tenant := ident.New()
		o.ada, o.bob = authz.Caller{TenantID: tenant, UserID: ident.New()}, authz.Caller{TenantID: tenant, UserID: ident.New()}
		o.who = o.ada
		people := identitysql.New(db)
		o.write(func(tx txn.Tx) error {
			err := people.CreateTenantTx(tx, identity.Tenant{TenantID: tenant, Name: "x", Slug: tenant, Status: identity.Active, Settings: []byte(`{}`)})
			for _, m := range []identity.Member{{UserID: o.ada.UserID, Email: "ada@example.com", Verified: true}, {UserID: o.bob.UserID}} {
				m.TenantID, m.Role, m.Status = tenant, authz.Developer, identity.Active
				err = errors.Join(err, people.CreateMemberTx(tx, m))
			}
			return err
		})
		test(t, o)
	})
}

func (o *office) write(do func(txn.Tx) error) {
	o.t.Helper()
	o.fatal(o.db.Write(o.t.Context(), do))
}

// body makes the input of an operation from JSON, as the edge would.
func (o *office) do(who authz.Caller, id string, in fields, body string) (out map[string]any, err error) {
	o.t.Helper()
	row, arg := o.find(id, in)
	if body != "" {
		notification.Decode(o.t, arg, body)
	}
	v, err := row.Call(o.t.Context(), who, arg)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(v)
	o.fatal(err)
	o.fatal(json.Unmarshal(b, &out))
	return out, nil
}

func (o *office) ok(who authz.Caller, id string, in fields, body string) map[string]any {
	o.t.Helper()
	out, err := o.do(who, id, in, body)
	o.fatal(err)
	return out
}

func (o *office) target(who authz.Caller, config string) string {
	o.t.Helper()
	return o.ok(who, "createNotificationTarget", nil, `{"label":"x","enabled":true,"config":`+config+`}`)["id"].(string)
}

// confirmed makes an email target and confirms it by the link in its letter.
func (o *office) confirmed(who authz.Caller, address string) string {
	o.t.Helper()
	id := o.target(who, `{"kind":"email","address":"`+address+`"}`)
	o.mailed(address + " Confirm that you want notifications of Acme")
	o.fatal(o.press("confirmNotificationTarget", linkIn(o.t, o.box.text, "/confirm")))
	return id
}

// linkIn returns the token of a link in a letter.
func linkIn(t *testing.T, letter, path string) string {
	t.Helper()
	for word := range strings.FieldsSeq(letter) {
		if _, token, found := strings.Cut(word, path+"?token="); found {
			return token
		}
	}
	t.Fatalf("no link to %s in %s", path, letter)
	return ""
}

// press opens a link of a letter, which has no effect, or presses the button on its page.
func (o *office) press(id, token string) error {
	o.t.Helper()
	row, arg := o.find(id, fields{"Token": token})
	out, err := row.Call(o.t.Context(), authz.Caller{}, arg)
	if err != nil {
		return err
	}
	if page := out.(*route.Reply); page.Media != "text/html" || !strings.Contains(string(page.JSON), "<h1>") || strings.Contains(string(page.JSON), "<script") {
		o.t.Errorf("the page is %s", page.JSON)
	}
	return nil
}

// work does what is due.
func (o *office) work() (n int) {
	o.t.Helper()
	for _, kind := range []string{notification.FanOutKind, notification.DeliverKind} {
		held, err := o.queue.Claim(o.t.Context(), kind, "node", 100, 15*time.Second)
		o.fatal(err)
		for _, h := range held {
			if kind == notification.FanOutKind {
				o.fatal(o.FanOut(o.t.Context(), h))
			} else {
				o.fatal(o.Deliver(o.t.Context(), h))
			}
			n++
		}
	}
	return n
}

func (o *office) items() (n int) {
	o.t.Helper()
	o.fatal(o.db.QueryRow(o.t.Context(), `SELECT COUNT(*) FROM work`).Scan(&n))
	return n
}

func (o *office) mailed(want ...string) {
	o.t.Helper()
	if !slices.Equal(o.box.sent, want) {
		o.t.Errorf("mailed %v, want %v", o.box.sent, want)
	}
	o.box.sent = nil
}

func (o *office) critical(title string) {
	o.t.Helper()
	o.notify(notification.Notification{Title: title, Priority: notification.Critical, Message: "It burns.", ActionURL: "/api/v1/runs/1"})
}

func TestOnlyCriticalIsMailedByDefault(t *testing.T) {
	t.Parallel()
	offices(t, func(t *testing.T, o *office) {
		o.titles("quiet")
		o.notify(notification.Notification{Title: "warned", Priority: notification.Warning})
		if n := o.items(); n != 0 {
			t.Errorf("%d work items for notifications without recipients", n)
		}
		o.critical("fire\nfire")
		o.notify(notification.Notification{Title: "for bob", Priority: notification.Critical, UserID: &o.bob.UserID})
		o.notify(notification.Notification{Title: "for ada", Priority: notification.Critical, UserID: &o.ada.UserID})
		o.work()
		slices.Sort(o.box.sent)
		o.mailed("ada@example.com [Acme] fire fire", "ada@example.com [Acme] for ada")
		o.box.text = ""
		o.critical("again")
		o.work()
		if want := "The company \"Acme\" sends you this:\n\n> again\n> \n> It burns.\n\nhttps://agentd.example.com/api/v1/runs/1\n\n-- \n"; !strings.HasPrefix(o.box.text, want) {
			t.Errorf("the letter is %q", o.box.text)
		}
		o.mailed("ada@example.com [Acme] again")
		if n := o.items(); n != 0 {
			t.Errorf("%d items of work remain", n)
		}

		o.box.off = true
		o.critical("unheard")
		if n := o.items(); n != 0 {
			t.Errorf("%d items of work without mail", n)
		}
		o.box.off = false
		for _, change := range []string{
			`UPDATE users SET role = 'viewer' WHERE tenant_id = ?`, `UPDATE users SET role = 'owner', status = 'suspended' WHERE tenant_id = ?`,
			`UPDATE users SET status = 'active' WHERE tenant_id = ?`, `UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`,
		} {
			o.write(func(tx txn.Tx) error {
				_, err := sqldb.From(tx).Exec(change, o.ada.TenantID)
				return err
			})
			o.critical("gone")
			o.work()
			if strings.Contains(change, "active") {
				o.mailed("ada@example.com [Acme] gone")
			} else {
				o.mailed()
			}
		}
	})
}

func TestPrefs(t *testing.T) {
	t.Parallel()
	offices(t, func(t *testing.T, o *office) {
		const none = `{"priority_channels":{"critical":["in_app","email"],"warning":["in_app"],"info":["in_app"],"success":["in_app"]},"type_overrides":{},"muted_types":[],"quiet_hours":null}`
		same := func(who authz.Caller, want string) {
			t.Helper()
			var w map[string]any
			o.fatal(json.Unmarshal([]byte(want), &w))
			if diff := cmp.Diff(w, o.ok(who, "getNotificationPrefs", nil, "")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		same(o.ada, none)
		full := `{"priority_channels":{"critical":["in_app"],"warning":["in_app","email","webhook"],"info":["in_app"],"success":["in_app","webhook"]},` +
			`"type_overrides":{"run.failed":["in_app","email"]},"muted_types":["run.completed"],"quiet_hours":{"start_local":"22:00","end_local":"07:00","timezone":"Asia/Tokyo"}}`
		o.ok(o.ada, "setNotificationPrefs", nil, `{"priority_channels":{"critical":[],"warning":["webhook","email"],"success":["webhook","in_app"]},`+
			`"type_overrides":{"run.failed":["email"]},"muted_types":["run.completed"],"quiet_hours":{"start_local":"22:00","end_local":"07:00","timezone":"Asia/Tokyo"}}`)
		same(o.ada, full)
		same(o.bob, none)
		same(authz.Caller{TenantID: ident.New(), UserID: o.ada.UserID}, none)
		o.ok(o.ada, "setNotificationPrefs", nil, `{"muted_types":["x"]}`)
		same(o.ada, strings.Replace(none, `"muted_types":[]`, `"muted_types":["x"]`, 1))
		if _, err := o.do(o.ada, "setNotificationPrefs", nil, `{"muted_types":["x y"]}`); !fault.Is(err, fault.Invalid) {
			t.Errorf("a wrong type: %v", err)
		}
	})
}

func TestTargets(t *testing.T) {
	t.Parallel()
	offices(t, func(t *testing.T, o *office) {
		hook := o.ok(o.ada, "createNotificationTarget", nil, `{"label":"Ops","enabled":true,"config":{"kind":"webhook","url":"https://example.com/hook?token=hush","format":"generic"}}`)
		config := hook["config"].(map[string]any)
		made, _ := config["signing_secret"].(string)
		if !strings.HasPrefix(made, "whsec_") || config["url"] != "https://example.com/[redacted]" {
			t.Errorf("%v", hook)
		}
		o.target(o.ada, `{"kind":"webhook","url":"https://hooks.example.com/T/B/xyz","format":"slack"}`)
		o.target(o.ada, `{"kind":"email","address":"ops@example.com"}`)
		for _, who := range []authz.Caller{o.bob, {TenantID: ident.New(), UserID: o.ada.UserID}} {
			if got := o.ok(who, "listNotificationTargets", nil, "")["targets"].([]any); len(got) != 0 {
				t.Errorf("another person sees %v", got)
			}
			for _, op := range []string{"deleteNotificationTarget", "testNotificationTarget"} {
				if _, err := o.do(who, op, fields{"TargetID": hook["id"]}, ""); !fault.Is(err, fault.NotFound) {
					t.Errorf("another person: %s: %v", op, err)
				}
			}
		}
		list := o.ok(o.ada, "listNotificationTargets", nil, "")["targets"].([]any)
		all := fmt.Sprint(list)
		if len(list) != 3 || strings.Contains(all, made) || strings.Contains(all, "hush") || strings.Contains(all, "xyz") || !strings.Contains(all, "ops@example.com") {
			t.Errorf("%v", list)
		}
		var stored string
		o.fatal(o.db.QueryRow(t.Context(), `SELECT MAX(label) FROM notification_targets`).Scan(&stored))
		var sealed []byte
		o.fatal(o.db.QueryRow(t.Context(), `SELECT sealed FROM notification_targets WHERE target_id = ?`, hook["id"]).Scan(&sealed))
		if strings.Contains(string(sealed), "example.com") {
			t.Error("the address is stored as it is")
		}
		o.ok(o.ada, "deleteNotificationTarget", fields{"TargetID": hook["id"]}, "")
		if _, err := o.do(o.ada, "deleteNotificationTarget", fields{"TargetID": hook["id"]}, ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("deleted twice: %v", err)
		}

		refuse := func(config string, kind fault.Kind, wrong ...string) {
			t.Helper()
			_, err := o.do(o.ada, "createNotificationTarget", nil, `{"config":`+config+`}`)
			var got []string
			for _, f := range fault.From(err).Fields {
				got = append(got, f.Field)
			}
			if !fault.Is(err, kind) || !slices.Equal(got, wrong) {
				t.Errorf("%s: %v %v", config, err, got)
			}
		}
		refuse(`{"kind":"push"}`, fault.Unsupported)
		refuse(`{"kind":"web_push"}`, fault.Unsupported)
		refuse(`{"kind":"email"}`, fault.Invalid, "config.address")
		refuse(`{"kind":"email","address":"Ada <ada@example.com>"}`, fault.Invalid, "config.address")
		refuse(`{"kind":"email","address":"a@example.com,b@example.com"}`, fault.Invalid, "config.address")
		refuse(`{"kind":"email","address":"a@example.com\r\nBcc: b@example.com"}`, fault.Invalid, "config.address")
		refuse(`{"kind":"webhook"}`, fault.Invalid, "config.url")
		refuse(`{"kind":"webhook","url":"http://example.com","signing_secret":"short"}`, fault.Invalid, "config.url", "config.signing_secret")
		o.box.off = true
		refuse(`{"kind":"email","address":"ada@example.com"}`, fault.Unsupported)
		for range 18 {
			o.target(o.ada, `{"kind":"webhook","url":"https://example.com"}`)
		}
		refuse(`{"kind":"webhook","url":"https://example.com"}`, fault.Invalid)
	})
}

func TestTargetsAreNotifiedOnce(t *testing.T) {
	t.Parallel()
	offices(t, func(t *testing.T, o *office) {
		o.titles("before")
		hook := o.target(o.ada, `{"kind":"webhook","url":"https://example.com/a","signing_secret":"0123456789abcdef","format":"generic"}`)
		o.confirmed(o.ada, "ops@example.com")
		o.target(o.bob, `{"kind":"webhook","url":"https://example.com/b","format":"discord"}`)
		o.ok(o.ada, "createNotificationTarget", nil, `{"enabled":false,"config":{"kind":"webhook","url":"https://example.com/off","format":"slack"}}`)
		o.ok(o.ada, "setNotificationPrefs", nil, `{"priority_channels":{"warning":["webhook","email"]}}`)
		o.ok(o.bob, "setNotificationPrefs", nil, `{"priority_channels":{"warning":["webhook"]}}`)
		o.notify(notification.Notification{Title: "The *title* @everyone", Message: "<!channel>", Priority: notification.Warning})
		o.titles("unwanted")
		o.work()
		o.mailed("ops@example.com [Acme] The *title* @everyone")
		slices.SortFunc(o.hooks.posts, func(a, b notification.Post) int { return strings.Compare(a.URL, b.URL) })
		if len(o.hooks.posts) != 2 {
			t.Fatalf("%v", o.hooks.posts)
		}
		all, err := o.Store.List(t.Context(), o.ada.TenantID, o.ada.UserID, notification.Filter{}, 10)
		o.fatal(err)
		generic, discord := o.hooks.posts[0], o.hooks.posts[1]
		var body struct {
			EventID   string                    `json:"event_id"`
			EventType string                    `json:"event_type"`
			TenantID  string                    `json:"tenant_id"`
			Timestamp string                    `json:"timestamp"`
			Data      notification.Notification `json:"data"`
		}
		o.fatal(json.Unmarshal(generic.Body, &body))
		if body.EventID != all[1].ID || generic.EventID != body.EventID || body.EventType != notification.SystemAlert || body.TenantID != o.ada.TenantID ||
			body.Timestamp != "2026-09-10T12:00:00.000Z" || body.Data.Title != "The *title* @everyone" || generic.Secret != "0123456789abcdef" || generic.URL != "https://example.com/a" {
			t.Errorf("%s %+v", generic.Body, generic)
		}
		if string(discord.Body) != `{"content":"**The *title* @everyone**\n<!channel>","allowed_mentions":{"parse":[]}}` {
			t.Errorf("%s", discord.Body)
		}
		if n := o.items(); n != 0 {
			t.Errorf("%d items of work remain", n)
		}
		got := o.ok(o.ada, "listNotificationTargets", nil, "")["targets"].([]any)[0].(map[string]any)
		if last, _ := got["last_delivery"].(map[string]any); got["id"] != hook || last["status"] != "delivered" {
			t.Errorf("%v", got)
		}

		// What is deleted meanwhile is not sent.
		o.notify(notification.Notification{Title: "deleted", Priority: notification.Warning})
		o.ok(o.ada, "bulkDeleteNotifications", fields{"Scope": "all"}, "")
		o.hooks.posts = nil
		o.work()
		o.mailed()
		if len(o.hooks.posts) != 0 || o.items() != 0 {
			t.Errorf("%v", o.hooks.posts)
		}
	})
}

func TestWebhooksAreRetried(t *testing.T) {
	t.Parallel()
	offices(t, func(t *testing.T, o *office) {
		o.target(o.bob, `{"kind":"webhook","url":"https://example.com/b","format":"slack"}`)
		o.ok(o.bob, "setNotificationPrefs", nil, `{"priority_channels":{"info":["webhook"]}}`)
		last := func() (status, failure any) {
			l := o.ok(o.bob, "listNotificationTargets", nil, "")["targets"].([]any)[0].(map[string]any)["last_delivery"].(map[string]any)
			return l["status"], l["error"]
		}
		for name, tt := range map[string]struct {
			answers []int
			posts   int
			status  string
		}{
			"good_at_last":  {[]int{500, 0, 429, 301, 204}, 5, "delivered"},
			"never_good":    {[]int{0, 0, 0, 0, 0, 0}, 5, "failed"},
			"refused":       {[]int{400}, 1, "failed"},
			"gone":          {[]int{410}, 1, "failed"},
			"not_reachable": {[]int{1}, 1, "failed"},
			"good":          {[]int{200}, 1, "delivered"},
		} {
			o.hooks.answers, o.hooks.posts = tt.answers, nil
			o.notify(notification.Notification{Title: "a < b & c", Message: "<!channel>"})
			o.work()
			for _, wait := range []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 24 * time.Hour} {
				o.clock.Advance(wait - time.Second)
				if wait < time.Hour && tt.posts > 1 && o.work() != 0 {
					t.Errorf("%s: tried again too soon", name)
				}
				o.clock.Advance(time.Second)
				o.work()
			}
			if status, failure := last(); len(o.hooks.posts) != tt.posts || status != tt.status || (failure == nil) != (tt.status == "delivered") {
				t.Errorf("%s: posted %d times, %v: %v", name, len(o.hooks.posts), status, failure)
			}
			for _, p := range o.hooks.posts {
				if p.EventID != o.hooks.posts[0].EventID || string(p.Body) != `{"text":"*a &lt; b &amp; c*\n&lt;!channel&gt;"}` || p.Secret != "" {
					t.Errorf("%s: %+v %s", name, p, p.Body)
				}
			}
			if o.items() != 0 {
				t.Errorf("%s: %d items of work remain", name, o.items())
			}
		}
	})
}

// In quiet hours what is not critical waits, and is not told at all where it
// was read by then.
func TestQuietHoursAreKept(t *testing.T) {
	t.Parallel()
	offices(t, func(t *testing.T, o *office) {
		o.ok(o.ada, "setNotificationPrefs", nil, `{"priority_channels":{"warning":["email"]},"quiet_hours":{"start_local":"11:00","end_local":"14:00","timezone":"UTC"}}`)
		o.notify(notification.Notification{Title: "later", Priority: notification.Warning})
		o.notify(notification.Notification{Title: "read by then", Priority: notification.Warning})
		o.critical("now")
		o.work()
		o.mailed("ada@example.com [Acme] now")
		all, err := o.Store.List(t.Context(), o.ada.TenantID, o.ada.UserID, notification.Filter{}, 10)
		o.fatal(err)
		o.ok(o.ada, "markNotificationRead", fields{"NotificationID": all[1].ID}, "")
		o.clock.Advance(119 * time.Minute)
		if o.work() != 0 {
			t.Error("sent in quiet hours")
		}
		o.clock.Advance(time.Minute)
		o.work()
		o.mailed("ada@example.com [Acme] later")
		if o.items() != 0 {
			t.Errorf("%d items of work remain", o.items())
		}
	})
}

func TestTargetTests(t *testing.T) {
	t.Parallel()
	offices(t, func(t *testing.T, o *office) {
		off := o.ok(o.ada, "createNotificationTarget", nil, `{"enabled":false,"config":{"kind":"webhook","url":"https://example.com/off","format":"generic"}}`)["id"]
		letters := o.confirmed(o.ada, "ops@example.com")
		for _, id := range []any{off, letters} {
			if got := o.ok(o.ada, "testNotificationTarget", fields{"TargetID": id}, ""); got["queued"] != true || got["id"] != id {
				t.Errorf("%v", got)
			}
		}
		o.work()
		o.mailed("ops@example.com [Acme] Test notification")
		if len(o.hooks.posts) != 1 {
			t.Errorf("%v", o.hooks.posts)
		}
		o.sees(o.ada) // nothing is in the list
	})
}

// A change of preferences takes effect at once on this node, and within a
// second on others.
func TestWhoWantsToHearIsKnown(t *testing.T) {
	t.Parallel()
	offices(t, func(t *testing.T, o *office) {
		other := notification.New(o.Deps) // another node
		notified := func() int {
			o.write(func(tx txn.Tx) error {
				return other.Notify(tx, notification.Notification{TenantID: o.ada.TenantID, Type: "x", Title: "t"})
			})
			return o.items()
		}
		if n := notified(); n != 0 {
			t.Fatalf("%d items of work", n)
		}
		o.ok(o.ada, "setNotificationPrefs", nil, `{}`)
		o.titles("here")
		if n := o.items(); n != 1 {
			t.Errorf("%d items of work here", n)
		}
		if n := notified(); n != 1 {
			t.Errorf("%d items of work of the other node, at once", n)
		}
		o.clock.Advance(time.Second)
		if n := notified(); n != 2 {
			t.Errorf("%d items of work of the other node, a second later", n)
		}
	})
}
