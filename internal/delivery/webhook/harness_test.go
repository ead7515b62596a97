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

// receiver is a webhook.Sender that records requests and responds by a function.
type receiver struct {
	mu     sync.Mutex
	got    []webhook.Request
	now    int // requests under way
	max    int // the maximum of now
	answer func(ctx context.Context, n int, a webhook.Request) webhook.Outcome
}

func (r *receiver) Send(ctx context.Context, a webhook.Request) webhook.Outcome {
	r.mu.Lock()
	r.got = append(r.got, a)
	n := len(r.got)
	r.now++
	r.max = max(r.max, r.now)
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

func (r *receiver) requests() []webhook.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]webhook.Request{}, r.got...)
}

var (
	ok   = webhook.Outcome{Status: 204, Latency: 3 * time.Millisecond}
	down = webhook.Outcome{Status: 503, Latency: time.Millisecond, Failure: "The endpoint responded with status 503."}
	gone = webhook.Outcome{Status: 410, Failure: "The endpoint responded with status 410."}
)

func always(o webhook.Outcome) func(context.Context, int, webhook.Request) webhook.Outcome {
	return func(context.Context, int, webhook.Request) webhook.Outcome { return o }
}

// harness is a service over a real database, with a recorded receiver.
type harness struct {
	*webhook.Service
	*receiver
	t     *testing.T
	db    *sqldb.DB
	store *webhooksql.Store
	queue *worksql.Queue
	clock *clock.Fake
	who   authz.Caller
}

func each(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Helper()
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := &harness{
			receiver: &receiver{}, t: t, db: db, clock: clock.NewFake(), store: webhooksql.New(db),
			who: authz.Caller{TenantID: ident.New(), UserID: ident.New(), Role: authz.Owner, Scopes: []authz.Scope{authz.Wildcard}},
		}
		h.queue = worksql.New(db, h.clock, nil)
		box, err := secret.NewBox(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		h.Service = webhook.New(webhook.Deps{
			Store: h.store, Writer: db, Queue: h.queue, Sender: h.receiver, Clock: h.clock, Box: box, Cursors: page.NewCursors(make([]byte, 32)),
			CheckURL: func(_ context.Context, _, url string) error {
				if strings.Contains(url, "bad") {
					return fault.New(fault.Invalid, "", "The URL is not allowed.")
				}
				return nil
			},
			Waits: func() []time.Duration {
				return []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour}
			},
		})
		test(t, h)
	})
}

// call calls an operation with the input that set fills in.
func call[Out any](h *harness, id string, set func(in any)) (out Out, err error) {
	h.t.Helper()
	for _, row := range h.Routes() {
		if row.ID != id {
			continue
		}
		in := newIn(row.In)
		set(in)
		answer, err := row.Call(h.t.Context(), h.who, in)
		out, _ := answer.(Out)
		return out, err
	}
	h.t.Fatalf("there is no operation %s", id)
	return out, nil
}

// subscribe creates a subscription and returns its id.
func (h *harness) subscribe(events ...string) string {
	h.t.Helper()
	v, err := call[webhook.View](h, "createWebhook", func(in any) { setBody(in, "https://receiver.example/", events) })
	if err != nil {
		h.t.Fatal(err)
	}
	return v.WebhookID
}

func (h *harness) write(do func(txn.Tx) error) {
	h.t.Helper()
	if err := h.db.Write(h.t.Context(), do); err != nil {
		h.t.Fatal(err)
	}
}

// event returns an event of the harness's tenant.
func (h *harness) event(kind string) webhook.Event {
	data := func() (jsontext.Value, error) { return jsontext.Value(`{"a":1}`), nil }
	return webhook.Event{TenantID: h.who.TenantID, Type: kind, At: h.clock.Now(), Data: data}
}

func (h *harness) emit(kind string) {
	h.t.Helper()
	h.write(func(tx txn.Tx) error { return h.Emit(tx, h.event(kind)) })
}

// work runs the dispatchers that are due, as a runner would, and returns how many
// there were.
func (h *harness) work() int {
	h.t.Helper()
	held, err := h.queue.Claim(h.t.Context(), webhook.WorkKind, "node", 100, time.Minute)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, lease := range held {
		if err := h.Handle(h.t.Context(), lease); err != nil {
			h.t.Fatal(err)
		}
	}
	return len(held)
}

// after advances the clock and runs what is due.
func (h *harness) after(d time.Duration) int {
	h.t.Helper()
	h.clock.Advance(d)
	return h.work()
}

func (h *harness) find(id string) *webhook.Subscription {
	h.t.Helper()
	s, err := h.store.Get(h.t.Context(), h.who.TenantID, id)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// log returns the delivery log of a subscription, oldest first.
func (h *harness) log(id string) []webhook.Attempt {
	h.t.Helper()
	all, _, err := h.store.ListAttempts(h.t.Context(), h.who.TenantID, id, "", 1000, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// due returns when a work item is due next; zero: never.
func (h *harness) due() time.Time {
	h.t.Helper()
	at, err := h.queue.GetNextDue(h.t.Context(), webhook.WorkKind)
	if err != nil {
		h.t.Fatal(err)
	}
	return at
}

// claim claims a work item, as a node would.
func (h *harness) claim() work.Lease {
	h.t.Helper()
	held, err := h.queue.Claim(h.t.Context(), webhook.WorkKind, "node", 1, time.Minute)
	if err != nil || len(held) != 1 {
		h.t.Fatal(held, err)
	}
	return held[0]
}
