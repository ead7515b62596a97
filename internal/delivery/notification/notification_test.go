package notification_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/notification/notificationsql"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// rig is the slice over a real database.
type harness struct {
	*notification.Service
	t     *testing.T
	clock *clock.Fake
	who   authz.Caller
}

func each(t *testing.T, test func(t *testing.T, r *harness)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := &harness{t: t, clock: clock.NewFake(), who: authz.Caller{TenantID: ident.New(), UserID: ident.New()}}
		r.Service = notification.New(notification.Deps{Store: notificationsql.New(db), Writer: db, Clock: r.clock, Hub: event.NewHub()})
		test(t, r)
	})
}

func (r *harness) fatal(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// notify sends a notification, with defaults for what n leaves out.
func (r *harness) notify(n notification.Notification) {
	r.t.Helper()
	if n.TenantID == "" {
		n.TenantID = r.who.TenantID
	}
	if n.Type == "" {
		n.Type = notification.SystemAlert
	}
	r.fatal(r.Writer.Write(r.t.Context(), func(tx txn.Tx) error { return r.Notify(tx, n) }))
}

// titles sends notifications with titles.
func (r *harness) titles(titles ...string) {
	r.t.Helper()
	for _, title := range titles {
		r.notify(notification.Notification{Title: title})
	}
}

// fields sets an operation's input.
type fields map[string]any

// find returns an operation and its input.
func (r *harness) find(id string, in fields) (route.Route, any) {
	r.t.Helper()
	for _, row := range r.Routes() {
		if row.ID != id {
			continue
		}
		v := reflect.New(row.In)
		for name, value := range in {
			v.Elem().FieldByName(name).Set(reflect.ValueOf(value))
		}
		return row, v.Interface()
	}
	r.t.Fatalf("there is no operation %s", id)
	return route.Route{}, nil
}

// call calls an operation and returns its response as JSON.
func (r *harness) call(id string, who authz.Caller, in fields) string {
	r.t.Helper()
	row, arg := r.find(id, in)
	out, err := row.Call(r.t.Context(), who, arg)
	r.fatal(err)
	b, err := json.Marshal(out)
	r.fatal(err)
	return string(b)
}

// seen lists titles as a person sees them.
func (r *harness) seen(who authz.Caller, unread bool) (titles []string) {
	r.t.Helper()
	all, err := r.Store.List(r.t.Context(), who.TenantID, who.UserID, notification.Filter{Unread: unread}, 100)
	r.fatal(err)
	for _, n := range all {
		titles = append(titles, n.Title)
	}
	return titles
}

func (r *harness) sees(who authz.Caller, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.seen(who, false)); diff != "" {
		r.t.Errorf("seen (-want +got):\n%s", diff)
	}
}

func (r *harness) unread(who authz.Caller, want int) {
	r.t.Helper()
	n, err := r.Store.CountUnread(r.t.Context(), who.TenantID, who.UserID, 1001)
	r.fatal(err)
	if n != want || len(r.seen(who, true)) != want {
		r.t.Errorf("%d are not read, %v; want %d", n, r.seen(who, true), want)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		r.titles("plain")
		full := notification.Notification{
			UserID: &r.who.UserID, Type: "domain.x", Title: "Full \"é\"", Message: "m", Data: schema.Nullable(`{"a":[1,"\u0000"]}`),
			ActionURL: "/x", Priority: notification.Critical, DedupKey: "k", Source: &notification.Source{Kind: "agent", ID: "1"},
		}
		r.notify(full)
		r.notify(notification.Notification{
			Title: strings.Repeat("ü", 400), Message: "a\x00b\xffc", ID: "forged", Read: true, Seq: 77, CreatedAt: time.Unix(1, 0),
		})
		all, err := r.Store.List(t.Context(), r.who.TenantID, r.who.UserID, notification.Filter{}, 10)
		r.fatal(err)
		if len(all) != 3 {
			t.Fatal(all)
		}
		long, got, plain := all[0], all[1], all[2]
		if len(long.Title) > 300 || !utf8.ValidString(long.Title) || !strings.HasSuffix(long.Title, "ü…") || long.Message != "ab\ufffdc" || long.Read || !ident.Valid(long.ID) {
			t.Errorf("%+v", long)
		}
		want := full
		want.ID, want.TenantID, want.CreatedAt, want.Seq = got.ID, r.who.TenantID, r.clock.Now(), 2
		a, err := json.Marshal(want)
		r.fatal(err)
		b, err := json.Marshal(got)
		r.fatal(err)
		if diff := cmp.Diff(string(a), string(b)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if plain.Priority != notification.Info || plain.UserID != nil || plain.Source != nil || plain.Data != nil || plain.Seq != 1 {
			t.Errorf("%+v", plain)
		}
		err = r.Writer.Write(t.Context(), func(tx txn.Tx) error {
			return r.Notify(tx, notification.Notification{TenantID: "x", Type: "y", Title: " "})
		})
		if !fault.Is(err, fault.Internal) {
			t.Errorf("without a title: %v", err)
		}
	})
}

func TestVisibility(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		colleague := authz.Caller{TenantID: r.who.TenantID, UserID: ident.New()}
		stranger := authz.Caller{TenantID: ident.New(), UserID: r.who.UserID}
		r.titles("all")
		r.notify(notification.Notification{Title: "mine", UserID: &r.who.UserID})
		r.notify(notification.Notification{Title: "theirs", UserID: &colleague.UserID})
		r.notify(notification.Notification{Title: "foreign", TenantID: stranger.TenantID})
		r.sees(r.who, "mine", "all")
		r.sees(colleague, "theirs", "all")
		r.sees(stranger, "foreign")
		r.unread(r.who, 2)

		theirs, err := r.Store.List(t.Context(), colleague.TenantID, colleague.UserID, notification.Filter{}, 1)
		r.fatal(err)
		for _, who := range []authz.Caller{r.who, stranger} {
			for _, op := range []string{"markNotificationRead", "deleteNotification"} {
				if got := r.call(op, who, fields{"NotificationID": theirs[0].ID}); got != `{"ok":true}` {
					t.Errorf("%s: %s", op, got)
				}
			}
			r.call("markAllNotificationsRead", stranger, nil)
		}
		r.unread(colleague, 2)
		r.sees(colleague, "theirs", "all")
		r.call("bulkDeleteNotifications", stranger, fields{"Scope": "all"})
		r.sees(r.who, "mine", "all")
		r.sees(stranger)
	})
}

func TestReadingAndDeleting(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		r.titles("a", "b", "c", "d")
		all, err := r.Store.List(t.Context(), r.who.TenantID, r.who.UserID, notification.Filter{}, 10)
		r.fatal(err)
		d, c := all[0].ID, all[1].ID
		want := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		want(r.call("getUnreadCount", r.who, nil), `{"unread_count":4,"count":4}`)
		for range 2 {
			want(r.call("markNotificationRead", r.who, fields{"NotificationID": d}), `{"ok":true}`)
		}
		want(r.call("markNotificationRead", r.who, fields{"NotificationID": ident.New()}), `{"ok":true}`)
		r.unread(r.who, 3)
		want(r.call("bulkDeleteNotifications", r.who, fields{"Scope": "read"}), `{"deleted":1,"scope":"read"}`)
		r.sees(r.who, "c", "b", "a")
		for range 2 {
			want(r.call("deleteNotification", r.who, fields{"NotificationID": c}), `{"ok":true}`)
		}
		want(r.call("markAllNotificationsRead", r.who, nil), `{"marked":2}`)
		want(r.call("markAllNotificationsRead", r.who, nil), `{"marked":0}`)
		r.unread(r.who, 0)
		r.sees(r.who, "b", "a")
		want(r.call("bulkDeleteNotifications", r.who, fields{"Scope": "all"}), `{"deleted":2,"scope":"all"}`)
		want(r.call("listNotifications", r.who, nil), `{"notifications":[]}`)

		row, in := r.find("bulkDeleteNotifications", fields{"Scope": "unread"})
		if _, err := row.Call(t.Context(), r.who, in); !fault.Is(err, fault.Malformed) {
			t.Errorf("another scope: %v", err)
		}
	})
}

func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		for i := range 105 {
			r.titles(fmt.Sprint(i))
		}
		for limit, want := range map[string]int{"": 20, "0": 1, "-5": 1, "7": 7, "100": 100, "1000": 100, "x": 20} {
			var got struct {
				Notifications []struct{ Title string } `json:"notifications"`
			}
			r.fatal(json.Unmarshal([]byte(r.call("listNotifications", r.who, fields{"Limit": limit})), &got, json.MatchCaseInsensitiveNames(true)))
			if len(got.Notifications) != want || got.Notifications[0].Title != "104" {
				t.Errorf("limit %q: %d, %v", limit, len(got.Notifications), got.Notifications[0])
			}
		}
	})
}

func TestDuplicatesAreDropped(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		one := notification.Notification{Title: "first", DedupKey: "k"}
		r.notify(one)
		one.Title = "again"
		r.notify(one)
		one.TenantID = ident.New()
		r.notify(one)
		r.sees(r.who, "first")
		r.sees(authz.Caller{TenantID: one.TenantID}, "again")

		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				err := r.Writer.Write(t.Context(), func(tx txn.Tx) error {
					return r.Notify(tx, notification.Notification{TenantID: r.who.TenantID, Type: "x", Title: "at once", DedupKey: "race"})
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.sees(r.who, "at once", "first")
	})
}

// Notifications of a transaction that fails are not sent.
func TestRolledBackNotificationsAreNotSent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		failure := errors.New("no")
		err := r.Writer.Write(t.Context(), func(tx txn.Tx) error {
			if err := r.Notify(tx, notification.Notification{TenantID: r.who.TenantID, Type: "x", Title: "t"}); err != nil {
				return err
			}
			return failure
		})
		if !errors.Is(err, failure) {
			t.Fatal(err)
		}
		r.sees(r.who)
	})
}

func TestOldOnesGo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		r.titles("old", "new")
		r.fatal(r.Writer.Write(t.Context(), func(tx txn.Tx) error { return r.Store.DeleteOldestTx(tx, r.who.TenantID, 1) }))
		r.sees(r.who, "new")
	})
}

// frames opens a stream; take returns its next frames.
func (r *harness) frames(lastID string) (take func(n int) []string) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	row, in := r.find("streamNotifications", fields{"LastEventID": lastID})
	seq, err := row.Open(ctx, r.who, in)
	r.fatal(err)
	next, stop := iter.Pull2(seq)
	r.t.Cleanup(func() { cancel(); stop() })
	return func(n int) (got []string) {
		r.t.Helper()
		for range n {
			f, err, more := next()
			r.fatal(err)
			if !more {
				r.t.Fatalf("the stream ended after %v", got)
			}
			var data struct {
				Title string `json:"title"`
			}
			r.fatal(json.Unmarshal(f.Data, &data))
			got = append(got, strings.TrimSpace(f.ID+" "+f.Name+" "+data.Title))
		}
		return got
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		want := func(got []string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		fresh := r.frames("")
		want(fresh(1), "0 ready")
		r.titles("a", "b")
		other := ident.New()
		r.notify(notification.Notification{Title: "not mine", UserID: &other})
		r.titles("c")
		want(fresh(3), "1 notification a", "2 notification b", "4 notification c")

		want(r.frames("")(1), "4 ready") // what was before is in the list
		resumed := r.frames("1")
		want(resumed(3), "1 ready", "2 notification b", "4 notification c")
		r.titles("d")
		want(resumed(1), "5 notification d")
		want(fresh(1), "5 notification d")
		for _, unknown := range []string{"x", "-1", "6", "1.5", ident.New()} {
			want(r.frames(unknown)(4), "0 ready", "gap", "1 notification a", "2 notification b")
		}
	})
}

// However many write at once, a stream shows everything once and in order.
func TestStreamUnderLoad(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		take := r.frames("")
		take(1)
		const writers, each = 4, 30
		for range writers {
			go func() {
				for range each {
					_ = r.Writer.Write(context.WithoutCancel(t.Context()), func(tx txn.Tx) error {
						return r.Notify(tx, notification.Notification{TenantID: r.who.TenantID, Type: "x", Title: "t"})
					})
				}
			}()
		}
		for i, got := range take(writers * each) {
			if want := fmt.Sprintf("%d notification t", i+1); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
	})
}

func TestRunsThatWaitOrFail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		why := "The model said no."
		rec := &run.Record{Run: run.Run{RunID: ident.New(), TenantID: r.who.TenantID, AgentID: ident.New(), Error: &why, ErrorCode: "model_error"}}
		rec.PendingInput = &run.PendingInput{Question: "Which?"}
		rec.PendingAuth = &run.PendingAuth{Name: "the calendar"}
		for i, status := range run.Statuses {
			rec.Status, rec.EventSeq = status, int64(i)
			for range 2 { // repeated
				r.fatal(r.Writer.Write(t.Context(), func(tx txn.Tx) error { return r.OnRunState(tx, rec) }))
			}
		}
		rec.Status, rec.EventSeq = run.AwaitingApproval, 100 // it waits once more
		r.fatal(r.Writer.Write(t.Context(), func(tx txn.Tx) error { return r.OnRunState(tx, rec) }))

		rec.Status, rec.PendingInput, rec.EventSeq = run.Paused, nil, 101 // paused by a person: no notification
		r.fatal(r.Writer.Write(t.Context(), func(tx txn.Tx) error { return r.OnRunState(tx, rec) }))

		rec.Status, rec.EventSeq, rec.Options.Sandbox = run.Failed, 102, &run.Sandbox{} // a test of a changed agent: no notification
		r.fatal(r.Writer.Write(t.Context(), func(tx txn.Tx) error { return r.OnRunState(tx, rec) }))

		contains := map[string]string{notification.RunFailed: why, notification.RunAwaitingInput: "Which?", notification.RunAuthRequired: "the calendar"}
		all, err := r.Store.List(t.Context(), r.who.TenantID, r.who.UserID, notification.Filter{}, 100)
		r.fatal(err)
		var got []string
		for _, n := range all {
			got = append(got, n.Type+" "+string(n.Priority))
			if n.Source == nil || n.Source.ID != rec.RunID || n.ActionURL != "/api/v1/runs/"+rec.RunID || !strings.Contains(string(n.Data), rec.AgentID) {
				t.Errorf("%+v", n)
			}
			if !strings.Contains(n.Message, contains[n.Type]) {
				t.Errorf("%s does not contain %q: %s", n.Type, contains[n.Type], n.Message)
			}
		}
		want := []string{
			"run.awaiting_approval warning", "run.auth_required warning", "run.awaiting_approval warning", "run.awaiting_input warning", "run.failed warning",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("newest first (-want +got):\n%s", diff)
		}
	})
}

func TestTool(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		registry, err := tool.NewRegistry(tool.Limits{}, r.Tool())
		r.fatal(err)
		set, _ := registry.Select([]string{"send_notification"})
		call := tool.Call{TenantID: r.who.TenantID, AgentID: ident.New(), RunID: ident.New(), ID: "call_1", Name: "send_notification"}
		send := func(arguments string) tool.Result {
			t.Helper()
			call.Arguments = arguments
			result, err := set.Call(t.Context(), call)
			r.fatal(err)
			return result
		}
		for range 2 { // repeated after a crash
			if got := send(`{"title":"Done","message":"It is \u0000done."}`); got.Failed {
				t.Fatal(got)
			}
		}
		send(`{"title":"More","message":"x"}`) // a model that calls everything call_1
		r.sees(r.who, "More", "Done")
		for _, arguments := range []string{
			`{}`, `{"title":"t"}`, `{"title":"","message":"m"}`, `{"title":" \u0000 ","message":"m"}`, `{"title":1,"message":"m"}`,
			`{"title":"t","message":"m","user_id":"x"}`, `[]`, `{"title":"` + strings.Repeat("x", 201) + `","message":"m"}`,
		} {
			if got := send(arguments); !got.Failed || got.Output == "" {
				t.Errorf("%s: %+v", arguments, got)
			}
		}
		r.sees(r.who, "More", "Done")
		all, err := r.Store.List(t.Context(), r.who.TenantID, "", notification.Filter{}, 1)
		r.fatal(err)
		if n := all[0]; n.Type != notification.AgentMessage || n.Source.ID != call.RunID || n.UserID != nil {
			t.Errorf("%+v", n)
		}
		if !r.Tool().Repeatable() {
			t.Error("a call whose outcome is unknown may be made again")
		}
	})
}

// The count of what is not read ends at a thousand, and says so.
func TestUnreadCountIsBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		notify := func(n int) {
			t.Helper()
			r.fatal(r.Writer.Write(t.Context(), func(tx txn.Tx) error {
				for range n {
					if err := r.Notify(tx, notification.Notification{TenantID: r.who.TenantID, Type: notification.SystemAlert, Title: "x"}); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		for _, c := range []struct {
			more int
			want string
		}{{1000, `{"unread_count":1000,"count":1000}`}, {1, `{"unread_count":1000,"count":1000,"total_is_lower_bound":true}`}} {
			notify(c.more)
			if got := r.call("getUnreadCount", r.who, nil); got != c.want {
				t.Errorf("counted %s, want %s", got, c.want)
			}
		}
	})
}
