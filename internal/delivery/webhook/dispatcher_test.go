package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/txn"
	"agentd/internal/delivery/webhook"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
)

// entry is the part of a log entry that tests compare.
type entry struct {
	Number int
	State  webhook.State
	Status int
	Next   time.Duration // from now; 0: none
	Dead   bool
}

func (h *harness) entries(id string) (all []entry) {
	for _, d := range h.log(id) {
		e := entry{Number: d.Number, State: d.State, Status: d.Status, Dead: d.Dead}
		if !d.NextRetry.IsZero() {
			e.Next = d.NextRetry.Sub(h.clock.Now())
		}
		all = append(all, e)
	}
	return all
}

func TestDelivered(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		id := h.subscribe("run.completed")
		h.emit("run.completed")
		if h.work() != 1 || len(h.requests()) != 1 {
			t.Fatalf("sent %v", h.requests())
		}
		a := h.requests()[0]
		if a.URL != "https://receiver.example/" || a.EventType != "run.completed" || len(a.Secret) < 49 || a.Secret[:6] != "whsec_" {
			t.Errorf("sent %+v", a)
		}
		want := `{"data":{"a":1},"event_id":"` + a.EventID + `","event_type":"run.completed",` +
			`"tenant_id":"` + h.who.TenantID + `","timestamp":"2026-09-10T12:00:00.000Z","type":"run.completed"}`
		if string(a.Body) != want && !sameJSON(a.Body, []byte(want)) {
			t.Errorf("the body is %s, want %s", a.Body, want)
		}
		log := h.log(id)
		if len(log) != 1 || log[0].ID != a.DeliveryID || log[0].State != webhook.Succeeded || log[0].Status != 204 || log[0].Latency != 3*time.Millisecond {
			t.Errorf("the log has %+v", log)
		}
		if !h.due().IsZero() {
			t.Error("work is left")
		}
	})
}

func TestRetries(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		h.answer = always(down)
		id := h.subscribe("run.failed")
		h.emit("run.failed")
		h.work()
		if diff := cmp.Diff([]entry{{1, webhook.Failed, 503, time.Minute, false}, {2, webhook.Pending, 0, 0, false}}, h.entries(id)); diff != "" {
			t.Fatal(diff)
		}
		for i, wait := range []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour} {
			if n := h.after(wait - time.Second); n != 0 {
				t.Fatalf("attempt %d was made too early", i+2)
			}
			h.after(time.Second)
			if got := len(h.requests()); got != i+2 {
				t.Fatalf("after %v there were %d attempts, want %d", wait, got, i+2)
			}
		}
		ids := map[string]bool{}
		for _, a := range h.requests() {
			ids[a.DeliveryID] = true
			if a.EventID != h.requests()[0].EventID || string(a.Body) != string(h.requests()[0].Body) {
				t.Errorf("the request differs: %+v", a)
			}
		}
		all := h.entries(id)
		if len(ids) != 5 || len(all) != 5 || !all[4].Dead || all[4].Next != 0 || all[3].Dead {
			t.Errorf("the log has %+v", all)
		}
		if s := h.find(id); s.Failures != 5 || s.Status != webhook.Failing || !s.LastFailure.Equal(h.clock.Now()) {
			t.Errorf("the subscription is %+v", s)
		}
		if !h.due().IsZero() {
			t.Error("a sixth attempt is scheduled")
		}

		// One success resets the failures.
		h.answer = nil
		h.emit("run.failed")
		h.work()
		if s := h.find(id); s.Failures != 0 || s.Status != webhook.Active {
			t.Errorf("after a success the subscription is %+v", s)
		}
	})
}

func TestRetryableStatuses(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		id := h.subscribe("run.failed")
		for status, want := range map[int]bool{
			0: true, 301: true, 302: true, 307: true, 400: false, 401: false, 404: false, 408: true, 409: false, 410: false, 422: false, 425: true, 429: true,
			500: true, 501: true, 503: true, 599: true,
		} {
			h.answer = always(webhook.Outcome{Status: status, Failure: "No."})
			h.emit("run.failed")
			h.work()
			log := h.log(id)
			last := log[len(log)-1]
			if retried := last.State == webhook.Pending; retried != want {
				t.Errorf("after the status %d: retried %v, want %v", status, retried, want)
			}
			if _, err := call[webhook.View](h, "enableWebhook", func(in any) { set(in, "WebhookID", id) }); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A subscription is failing after 3 consecutive failures and disabled after 20.
// Then nothing is sent to it until it is enabled, which sends what is pending.
func TestFailingAndDisabled(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		h.answer = always(gone)
		id := h.subscribe("run.failed")
		for n := range 25 {
			h.emit("run.failed")
			h.work()
			s := h.find(id)
			want := webhook.Active
			switch {
			case n+1 >= 20:
				want = webhook.Disabled
			case n+1 >= 3:
				want = webhook.Failing
			}
			if s.Status != want || s.Failures != int64(min(n+1, 20)) {
				t.Fatalf("after %d events the subscription is %s with %d failures", n+1, s.Status, s.Failures)
			}
		}
		if got := len(h.requests()); got != 20 {
			t.Errorf("%d attempts were made", got)
		}

		// A pending retry stays pending while other failures disable the subscription.
		v, err := call[webhook.View](h, "enableWebhook", func(in any) { set(in, "WebhookID", id) })
		if err != nil || v.Status != webhook.Active || v.FailureCount != 0 {
			t.Fatalf("enabled: %+v, %v", v, err)
		}
		h.answer = always(down)
		h.emit("run.failed")
		h.work()
		h.answer = always(gone)
		for range 19 {
			h.emit("run.failed")
			h.work()
		}
		before := len(h.requests())
		if h.after(time.Hour); h.find(id).Status != webhook.Disabled || len(h.requests()) != before {
			t.Fatalf("a disabled subscription was sent an event: %+v", h.find(id))
		}
		h.answer = nil
		if _, err := call[webhook.View](h, "enableWebhook", func(in any) { set(in, "WebhookID", id) }); err != nil {
			t.Fatal(err)
		}
		if h.work(); len(h.requests()) != before+1 {
			t.Errorf("after enable %d requests were sent", len(h.requests())-before)
		}
	})
}

// A healthy subscription has several attempts at a time, a failing one has one.
func TestParallelAttempts(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		full := make(chan struct{})
		h.answer = func(_ context.Context, n int, _ webhook.Request) webhook.Outcome {
			if n == 8 {
				close(full)
			}
			select {
			case <-full:
				return ok
			case <-time.After(10 * time.Second):
				return down
			}
		}
		h.subscribe("run.failed")
		h.write(func(tx txn.Tx) error {
			for range 100 {
				if err := h.Emit(tx, h.event("run.failed")); err != nil {
					return err
				}
			}
			return nil
		})
		if h.work(); len(h.requests()) != 100 || h.max != 8 {
			t.Errorf("%d attempts, at most %d at a time", len(h.requests()), h.max)
		}
		seen := map[string]bool{}
		for _, a := range h.requests() {
			seen[a.EventID] = true
		}
		if len(seen) != 100 {
			t.Errorf("%d events were sent", len(seen))
		}
	})
}

func TestFailingSubscriptionsHaveOneAttempt(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		id := h.subscribe("run.failed")
		h.answer = always(gone)
		for range 3 {
			h.emit("run.failed")
			h.work()
		}
		for range 10 {
			h.emit("run.failed")
		}
		h.max = 0
		h.answer = func(context.Context, int, webhook.Request) webhook.Outcome {
			runtime.Gosched()
			return gone
		}
		if h.work(); h.max != 1 || h.find(id).Failures != 13 {
			t.Errorf("a failing subscription had %d attempts at a time; %d failures", h.max, h.find(id).Failures)
		}
	})
}

// Events that are emitted while a dispatcher runs are sent by it.
func TestEventsWhileDispatching(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		h.subscribe("run.failed")
		h.answer = func(_ context.Context, n int, _ webhook.Request) webhook.Outcome {
			if n < 20 {
				h.emit("run.failed")
			}
			return ok
		}
		h.emit("run.failed")
		if h.work(); len(h.requests()) != 20 || !h.due().IsZero() {
			t.Errorf("%d attempts; next %v", len(h.requests()), h.due())
		}
	})
}

// Deleting a subscription stops its dispatcher.
func TestDeletedWhileDispatching(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		id := h.subscribe("run.failed")
		for range 50 {
			h.emit("run.failed")
		}
		done := make(chan struct{})
		h.answer = func(_ context.Context, n int, _ webhook.Request) webhook.Outcome {
			if n > 1 {
				<-done
			} else {
				defer close(done)
				if _, err := call[any](h, "deleteWebhook", func(in any) { set(in, "WebhookID", id) }); err != nil {
					t.Error(err)
				}
			}
			return ok
		}
		held := h.claim()
		if err := h.Handle(t.Context(), held); !errors.Is(err, work.ErrLost) {
			t.Errorf("the dispatcher ends with %v", err)
		}
		if n := len(h.requests()); n > 24 { // those under way
			t.Errorf("%d attempts were made", n)
		}
		if h.emit("run.failed"); !h.due().IsZero() {
			t.Error("an event was queued for it")
		}
	})
}

// A stop lets attempts under way end, and does not store those that it cuts off:
// the next node makes them.
func TestStopped(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		id := h.subscribe("run.failed")
		for range 4 {
			h.emit("run.failed")
		}
		ctx, stop := context.WithCancelCause(t.Context())
		h.answer = func(ctx context.Context, n int, _ webhook.Request) webhook.Outcome {
			if n <= 2 {
				if n == 2 {
					stop(work.ErrStopping)
				}
				return ok
			}
			<-ctx.Done()
			return webhook.Outcome{Failure: "The delivery was interrupted before a response came."}
		}
		if err := h.Handle(ctx, h.claim()); !errors.Is(err, work.ErrStopping) {
			t.Fatalf("the dispatcher ends with %v", err)
		}
		pending := 0
		for _, d := range h.log(id) {
			if d.State == webhook.Pending {
				pending++
			}
		}
		if s := h.find(id); pending != 2 || s.Failures != 0 {
			t.Errorf("%d deliveries are left; the subscription is %+v", pending, s)
		}
		h.answer = nil
		h.after(time.Hour)
		for _, d := range h.log(id) {
			if d.State != webhook.Succeeded || d.Number != 1 {
				t.Errorf("the log has %+v", d)
			}
		}
	})
}

// A dispatcher that lost its lease stores nothing.
func TestFenced(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		id := h.subscribe("run.failed")
		h.emit("run.failed")
		late := h.claim()
		h.clock.Advance(2 * time.Minute)
		h.answer = func(_ context.Context, n int, _ webhook.Request) webhook.Outcome {
			if n == 1 { // meanwhile another node claims the item, and fails as well
				if h.work() != 1 {
					t.Error("the item was not free")
				}
			}
			return down
		}
		if err := h.Handle(t.Context(), late); !errors.Is(err, work.ErrLost) {
			t.Errorf("the late dispatcher ends with %v", err)
		}
		if s := h.find(id); s.Failures != 1 || len(h.log(id)) != 2 {
			t.Errorf("counted %d failures; the log has %+v", s.Failures, h.log(id))
		}
	})
}

// Bodies are read when they are sent, only as many as fit in memory.
func TestLargeBodies(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		h.subscribe("run.failed")
		text := make([]byte, 900<<10)
		for i := range text {
			text[i] = 'x'
		}
		for i := range 12 {
			e := h.event("run.failed")
			e.Data = func() (jsontext.Value, error) { return fmt.Appendf(nil, `{"n":%d,"text":"%s"}`, i, text), nil }
			h.write(func(tx txn.Tx) error { return h.Emit(tx, e) })
		}
		if h.work(); len(h.requests()) != 12 {
			t.Errorf("%d attempts", len(h.requests()))
		}
	})
}

func TestSweep(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		kept, deleted := h.subscribe("run.failed", "run.completed"), h.subscribe("run.failed")
		count := func(table string) (n int) {
			t.Helper()
			if err := h.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM `+table).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		h.clock.Advance(time.Since(h.clock.Now())) // ids contain the real time
		h.emit("run.failed")
		h.work()
		if _, err := call[any](h, "deleteWebhook", func(in any) { set(in, "WebhookID", deleted) }); err != nil {
			t.Fatal(err)
		}
		h.clock.Advance(7*24*time.Hour - time.Minute)
		if err := h.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d, e, w := count("webhook_deliveries"), count("webhook_events"), count("webhooks"); d != 2 || e != 1 || w != 2 {
			t.Errorf("within a week there are %d deliveries, %d events, %d subscriptions", d, e, w)
		}
		h.clock.Advance(2 * time.Minute)
		if err := h.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d, e, w := count("webhook_deliveries"), count("webhook_events"), count("webhooks"); d != 0 || e != 0 || w != 1 {
			t.Errorf("after a week there are %d deliveries, %d events, %d subscriptions", d, e, w)
		}
		h.find(kept)

		// An attempt whose event was deleted is not waited for.
		h.emit("run.completed")
		h.write(func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec(`DELETE FROM webhook_events`)
			return err
		})
		if h.work(); !h.due().IsZero() {
			t.Error("work is left")
		}
	})
}
