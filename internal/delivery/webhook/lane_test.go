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

// entry is what a test looks at of a log entry.
type entry struct {
	Attempt int
	State   webhook.State
	Status  int
	Next    time.Duration // from now; 0: none
	Dead    bool
}

func (r *rig) entries(id string) (all []entry) {
	for _, d := range r.log(id) {
		e := entry{Attempt: d.Attempt, State: d.State, Status: d.Status, Dead: d.Dead}
		if !d.NextRetry.IsZero() {
			e.Next = d.NextRetry.Sub(r.clock.Now())
		}
		all = append(all, e)
	}
	return all
}

func TestDelivered(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		id := r.hook("run.completed")
		r.emit("run.completed")
		if r.work() != 1 || len(r.attempts()) != 1 {
			t.Fatalf("sent %v", r.attempts())
		}
		a := r.attempts()[0]
		if a.URL != "https://receiver.example/" || a.EventType != "run.completed" || len(a.Secret) < 49 || a.Secret[:6] != "whsec_" {
			t.Errorf("sent %+v", a)
		}
		want := `{"data":{"a":1},"event_id":"` + a.EventID + `","event_type":"run.completed",` +
			`"tenant_id":"` + r.who.TenantID + `","timestamp":"2026-09-10T12:00:00.000Z","type":"run.completed"}`
		if string(a.Body) != want && !sameJSON(a.Body, []byte(want)) {
			t.Errorf("the body is %s, want %s", a.Body, want)
		}
		log := r.log(id)
		if len(log) != 1 || log[0].ID != a.DeliveryID || log[0].State != webhook.Succeeded || log[0].Status != 204 || log[0].Latency != 3*time.Millisecond {
			t.Errorf("the log has %+v", log)
		}
		if !r.due().IsZero() {
			t.Error("there still is work")
		}
	})
}

func TestRetries(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.answer = always(down)
		id := r.hook("run.failed")
		r.emit("run.failed")
		r.work()
		if diff := cmp.Diff([]entry{{1, webhook.Failed, 503, time.Minute, false}, {2, webhook.Pending, 0, 0, false}}, r.entries(id)); diff != "" {
			t.Fatal(diff)
		}
		for i, wait := range []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour} {
			if n := r.after(wait - time.Second); n != 0 {
				t.Fatalf("attempt %d is made too early", i+2)
			}
			r.after(time.Second)
			if got := len(r.attempts()); got != i+2 {
				t.Fatalf("after %v there were %d attempts, want %d", wait, got, i+2)
			}
		}
		ids := map[string]bool{}
		for _, a := range r.attempts() {
			ids[a.DeliveryID] = true
			if a.EventID != r.attempts()[0].EventID || string(a.Body) != string(r.attempts()[0].Body) {
				t.Errorf("another event was sent: %+v", a)
			}
		}
		all := r.entries(id)
		if len(ids) != 5 || len(all) != 5 || !all[4].Dead || all[4].Next != 0 || all[3].Dead {
			t.Errorf("the log has %+v", all)
		}
		if s := r.find(id); s.Failures != 5 || s.Status != webhook.Failing || !s.LastFailure.Equal(r.clock.Now()) {
			t.Errorf("the subscription is %+v", s)
		}
		if !r.due().IsZero() {
			t.Error("a sixth attempt is planned")
		}

		// One success makes up for all of it.
		r.answer = nil
		r.emit("run.failed")
		r.work()
		if s := r.find(id); s.Failures != 0 || s.Status != webhook.Active {
			t.Errorf("after a success the subscription is %+v", s)
		}
	})
}

func TestWhatIsRetried(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		id := r.hook("run.failed")
		for status, want := range map[int]bool{
			0: true, 301: true, 302: true, 307: true, 400: false, 401: false, 404: false, 408: true, 409: false, 410: false, 422: false, 425: true, 429: true,
			500: true, 501: true, 503: true, 599: true,
		} {
			r.answer = always(webhook.Outcome{Status: status, Failure: "No."})
			r.emit("run.failed")
			r.work()
			log := r.log(id)
			last := log[len(log)-1]
			if retried := last.State == webhook.Pending; retried != want {
				t.Errorf("after the status %d: retried %v, want %v", status, retried, want)
			}
			if _, err := call[webhook.View](r, "enableWebhook", func(in any) { set(in, "WebhookID", id) }); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A subscription is failing after 3 failures in a row and disabled after 20;
// then nothing is sent to it until it is enabled, which sends what waited.
func TestFailingAndDisabled(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.answer = always(gone)
		id := r.hook("run.failed")
		for n := range 25 {
			r.emit("run.failed")
			r.work()
			s := r.find(id)
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
		if got := len(r.attempts()); got != 20 {
			t.Errorf("%d attempts were made", got)
		}

		// An event that waits for its next attempt while others disable the
		// subscription waits on.
		v, err := call[webhook.View](r, "enableWebhook", func(in any) { set(in, "WebhookID", id) })
		if err != nil || v.Status != webhook.Active || v.FailureCount != 0 {
			t.Fatalf("enabled: %+v, %v", v, err)
		}
		r.answer = always(down)
		r.emit("run.failed")
		r.work()
		r.answer = always(gone)
		for range 19 {
			r.emit("run.failed")
			r.work()
		}
		before := len(r.attempts())
		if r.after(time.Hour); r.find(id).Status != webhook.Disabled || len(r.attempts()) != before {
			t.Fatalf("a disabled subscription got something: %+v", r.find(id))
		}
		r.answer = nil
		if _, err := call[webhook.View](r, "enableWebhook", func(in any) { set(in, "WebhookID", id) }); err != nil {
			t.Fatal(err)
		}
		if r.work(); len(r.attempts()) != before+1 {
			t.Errorf("once it is enabled it gets %d", len(r.attempts())-before)
		}
	})
}

// A healthy receiver gets several attempts at a time, and one that fails one.
func TestWidth(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		full := make(chan struct{})
		r.answer = func(_ context.Context, n int, _ webhook.Attempt) webhook.Outcome {
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
		r.hook("run.failed")
		r.write(func(tx txn.Tx) error {
			for range 100 {
				if err := r.Emit(tx, r.event("run.failed")); err != nil {
					return err
				}
			}
			return nil
		})
		if r.work(); len(r.attempts()) != 100 || r.most != 8 {
			t.Errorf("%d attempts, at most %d at a time", len(r.attempts()), r.most)
		}
		seen := map[string]bool{}
		for _, a := range r.attempts() {
			seen[a.EventID] = true
		}
		if len(seen) != 100 {
			t.Errorf("%d events were sent", len(seen))
		}
	})
}

func TestNarrow(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		id := r.hook("run.failed")
		r.answer = always(gone)
		for range 3 {
			r.emit("run.failed")
			r.work()
		}
		for range 10 {
			r.emit("run.failed")
		}
		r.most = 0
		r.answer = func(context.Context, int, webhook.Attempt) webhook.Outcome {
			runtime.Gosched()
			return gone
		}
		if r.work(); r.most != 1 || r.find(id).Failures != 13 {
			t.Errorf("a failing receiver got %d at a time; %d failures", r.most, r.find(id).Failures)
		}
	})
}

// What comes while a lane is driven is sent by the same lane.
func TestMoreComesMeanwhile(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.hook("run.failed")
		r.answer = func(_ context.Context, n int, _ webhook.Attempt) webhook.Outcome {
			if n < 20 {
				r.emit("run.failed")
			}
			return ok
		}
		r.emit("run.failed")
		if r.work(); len(r.attempts()) != 20 || !r.due().IsZero() {
			t.Errorf("%d attempts; next %v", len(r.attempts()), r.due())
		}
	})
}

// Deleting a subscription takes its lane away from whoever drives it.
func TestDeletedMeanwhile(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		id := r.hook("run.failed")
		for range 50 {
			r.emit("run.failed")
		}
		done := make(chan struct{})
		r.answer = func(_ context.Context, n int, _ webhook.Attempt) webhook.Outcome {
			if n > 1 {
				<-done
			} else {
				defer close(done)
				if _, err := call[any](r, "deleteWebhook", func(in any) { set(in, "WebhookID", id) }); err != nil {
					t.Error(err)
				}
			}
			return ok
		}
		held := r.claim()
		if err := r.Handle(t.Context(), held); !errors.Is(err, work.ErrLost) {
			t.Errorf("the lane ends with %v", err)
		}
		if n := len(r.attempts()); n > 24 { // those that were begun
			t.Errorf("%d attempts were made", n)
		}
		if r.emit("run.failed"); !r.due().IsZero() {
			t.Error("an event is left for it")
		}
	})
}

// A stop lets attempts end that were begun, and forgets those that it cut off:
// the next node makes them.
func TestStopped(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		id := r.hook("run.failed")
		for range 4 {
			r.emit("run.failed")
		}
		ctx, stop := context.WithCancelCause(t.Context())
		r.answer = func(ctx context.Context, n int, _ webhook.Attempt) webhook.Outcome {
			if n <= 2 {
				if n == 2 {
					stop(work.ErrStopping)
				}
				return ok
			}
			<-ctx.Done()
			return webhook.Outcome{Failure: "The delivery was broken off before an answer came."}
		}
		if err := r.Handle(ctx, r.claim()); !errors.Is(err, work.ErrStopping) {
			t.Fatalf("the lane ends with %v", err)
		}
		pending := 0
		for _, d := range r.log(id) {
			if d.State == webhook.Pending {
				pending++
			}
		}
		if s := r.find(id); pending != 2 || s.Failures != 0 {
			t.Errorf("%d deliveries are left; the subscription is %+v", pending, s)
		}
		r.answer = nil
		r.after(time.Hour)
		for _, d := range r.log(id) {
			if d.State != webhook.Succeeded || d.Attempt != 1 {
				t.Errorf("the log has %+v", d)
			}
		}
	})
}

// Whoever lost a lane counts nothing.
func TestFenced(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		id := r.hook("run.failed")
		r.emit("run.failed")
		late := r.claim()
		r.clock.Advance(2 * time.Minute)
		r.answer = func(_ context.Context, n int, _ webhook.Attempt) webhook.Outcome {
			if n == 1 { // meanwhile another node takes the lane, and fails as well
				if r.work() != 1 {
					t.Error("the lane was not free")
				}
			}
			return down
		}
		if err := r.Handle(t.Context(), late); !errors.Is(err, work.ErrLost) {
			t.Errorf("the late one ends with %v", err)
		}
		if s := r.find(id); s.Failures != 1 || len(r.log(id)) != 2 {
			t.Errorf("counted %d failures; the log has %+v", s.Failures, r.log(id))
		}
	})
}

// A body is read for each attempt, and no more of them than fit.
func TestLargeBodies(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.hook("run.failed")
		text := make([]byte, 900<<10)
		for i := range text {
			text[i] = 'x'
		}
		for i := range 12 {
			e := r.event("run.failed")
			e.Data = func() (jsontext.Value, error) { return fmt.Appendf(nil, `{"n":%d,"text":"%s"}`, i, text), nil }
			r.write(func(tx txn.Tx) error { return r.Emit(tx, e) })
		}
		if r.work(); len(r.attempts()) != 12 {
			t.Errorf("%d attempts", len(r.attempts()))
		}
	})
}

func TestSweep(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		kept, deleted := r.hook("run.failed", "run.completed"), r.hook("run.failed")
		count := func(table string) (n int) {
			t.Helper()
			if err := r.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM `+table).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		r.clock.Advance(time.Since(r.clock.Now())) // ids tell the real time
		r.emit("run.failed")
		r.work()
		if _, err := call[any](r, "deleteWebhook", func(in any) { set(in, "WebhookID", deleted) }); err != nil {
			t.Fatal(err)
		}
		r.clock.Advance(7*24*time.Hour - time.Minute)
		if err := r.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d, e, w := count("webhook_deliveries"), count("webhook_events"), count("webhooks"); d != 2 || e != 1 || w != 2 {
			t.Errorf("before the week is over there are %d deliveries, %d events, %d subscriptions", d, e, w)
		}
		r.clock.Advance(2 * time.Minute)
		if err := r.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d, e, w := count("webhook_deliveries"), count("webhook_events"), count("webhooks"); d != 0 || e != 0 || w != 1 {
			t.Errorf("after it there are %d deliveries, %d events, %d subscriptions", d, e, w)
		}
		r.find(kept)

		// A delivery whose event is forgotten is not waited for.
		r.emit("run.completed")
		r.write(func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec(`DELETE FROM webhook_events`)
			return err
		})
		if r.work(); !r.due().IsZero() {
			t.Error("its lane still is work")
		}
	})
}
