package webhook_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/webhook"
	"agentd/internal/delivery/webhook/webhooksql"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is a webhook.Sender that answers by rule and remembers.
type receiver struct {
	mu     sync.Mutex
	got    []webhook.Attempt
	now    int // attempts that are being made
	most   int // and at most were
	answer func(ctx context.Context, n int, a webhook.Attempt) webhook.Outcome
}

func (r *receiver) Send(ctx context.Context, a webhook.Attempt) webhook.Outcome {
	r.mu.Lock()
	r.got = append(r.got, a)
	n := len(r.got)
	r.now++
	r.most = max(r.most, r.now)
	answer := r.answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.now--
		r.mu.Unlock()
	}()
	if answer == nil {
		return ok
	}
	return answer(ctx, n, a)
}

func (r *receiver) attempts() []webhook.Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]webhook.Attempt{}, r.got...)
}

var (
	ok   = webhook.Outcome{Status: 204, Latency: 3 * time.Millisecond}
	down = webhook.Outcome{Status: 503, Latency: time.Millisecond, Failure: "The receiver answered with status 503."}
	gone = webhook.Outcome{Status: 410, Failure: "The receiver answered with status 410."}
)

func always(o webhook.Outcome) func(context.Context, int, webhook.Attempt) webhook.Outcome {
	return func(context.Context, int, webhook.Attempt) webhook.Outcome { return o }
}

// rig is a service over a real database, with a receiver that is none.
type rig struct {
	*webhook.Service
	*receiver
	t     *testing.T
	db    *sqldb.DB
	store *webhooksql.Store
	queue *worksql.Queue
	clock *clock.Fake
	who   authz.Caller
}

func each(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := &rig{
			receiver: &receiver{}, t: t, db: db, clock: clock.NewFake(), store: webhooksql.New(db),
			who: authz.Caller{TenantID: ident.New(), UserID: ident.New(), Role: authz.Owner, Scopes: []authz.Scope{authz.Wildcard}},
		}
		r.queue = worksql.New(db, r.clock, nil)
		box, err := secret.NewBox(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		r.Service = webhook.New(webhook.Deps{
			Store: r.store, Writer: db, Queue: r.queue, Sender: r.receiver, Clock: r.clock, Box: box, Cursors: page.NewCursors(make([]byte, 32)),
			CheckURL: func(_ context.Context, url string) error {
				if strings.Contains(url, "bad") {
					return fault.New(fault.Invalid, "", "This is a bad one.")
				}
				return nil
			},
			Waits: []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour},
		})
		test(t, r)
	})
}

// call does an operation, with its input set by path parameter or field name.
func call[Out any](r *rig, id string, set func(in any)) (out Out, err error) {
	r.t.Helper()
	for _, row := range r.Routes() {
		if row.ID != id {
			continue
		}
		in := newIn(row.In)
		set(in)
		answer, err := row.Call(r.t.Context(), r.who, in)
		out, _ := answer.(Out)
		return out, err
	}
	r.t.Fatalf("there is no operation %s", id)
	return out, nil
}

// hook makes a subscription and gives its id.
func (r *rig) hook(events ...string) string {
	r.t.Helper()
	v, err := call[webhook.View](r, "createWebhook", func(in any) { setBody(in, "https://receiver.example/", events) })
	if err != nil {
		r.t.Fatal(err)
	}
	return v.WebhookID
}

func (r *rig) write(do func(txn.Tx) error) {
	r.t.Helper()
	if err := r.db.Write(r.t.Context(), do); err != nil {
		r.t.Fatal(err)
	}
}

// event is an event of the rig's tenant, with an empty object.
func (r *rig) event(kind string) webhook.Event {
	return webhook.Event{TenantID: r.who.TenantID, Type: kind, At: r.clock.Now(), Data: func() (jsontext.Value, error) { return jsontext.Value(`{"a":1}`), nil }}
}

func (r *rig) emit(kind string) {
	r.t.Helper()
	r.write(func(tx txn.Tx) error { return r.Emit(tx, r.event(kind)) })
}

// work delivers what is due, as a runner would, and says how many lanes that
// were.
func (r *rig) work() int {
	r.t.Helper()
	held, err := r.queue.Claim(r.t.Context(), webhook.WorkKind, "node", 100, time.Minute)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range held {
		if err := r.Handle(r.t.Context(), h); err != nil {
			r.t.Fatal(err)
		}
	}
	return len(held)
}

// after lets time pass, and delivers.
func (r *rig) after(d time.Duration) int {
	r.t.Helper()
	r.clock.Advance(d)
	return r.work()
}

func (r *rig) find(id string) *webhook.Subscription {
	r.t.Helper()
	s, err := r.store.Get(r.t.Context(), r.who.TenantID, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// log is the delivery log of a subscription, oldest first.
func (r *rig) log(id string) []webhook.Delivery {
	r.t.Helper()
	all, _, err := r.store.ListDeliveries(r.t.Context(), r.who.TenantID, id, "", 1000, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// due is when the lane of a subscription is looked at next; zero: never.
func (r *rig) due() time.Time {
	r.t.Helper()
	at, err := r.queue.GetNextDue(r.t.Context(), webhook.WorkKind)
	if err != nil {
		r.t.Fatal(err)
	}
	return at
}

// claim takes a lane, as a node would.
func (r *rig) claim() work.Lease {
	r.t.Helper()
	held, err := r.queue.Claim(r.t.Context(), webhook.WorkKind, "node", 1, time.Minute)
	if err != nil || len(held) != 1 {
		r.t.Fatal(held, err)
	}
	return held[0]
}
