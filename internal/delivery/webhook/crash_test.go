package webhook_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/delivery/webhook"
	"agentd/internal/kernel/work"
)

// crashingWriter simulates a process that crashes at its nth write: that write and
// all later ones do not happen.
type crashingWriter struct {
	txn.Writer
	mu   sync.Mutex
	left int
}

var errCrashed = errors.New("the process crashed")

func (d *crashingWriter) Write(ctx context.Context, do func(txn.Tx) error) error {
	d.mu.Lock()
	d.left--
	left := d.left
	d.mu.Unlock()
	if left <= 0 {
		return errCrashed
	}
	return d.Writer.Write(ctx, do)
}

// A process crashes at every write of a dispatcher. Every event still arrives,
// attempts whose outcome is stored are not repeated, and each failure in the log
// is counted once.
func TestCrashAtEveryWrite(t *testing.T) {
	const events = 30
	for name, test := range map[string]struct {
		answer func(ctx context.Context, before int) webhook.Outcome
		failed int64 // at least
		status webhook.Status
	}{
		"taken":   {func(context.Context, int) webhook.Outcome { return ok }, 0, webhook.Active},
		"refused": {func(context.Context, int) webhook.Outcome { return gone }, 20, webhook.Disabled},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, h *harness) {
				var mu sync.Mutex
				made := map[string]int{} // requests by delivery id
				h.answer = func(ctx context.Context, _ int, a webhook.Request) webhook.Outcome {
					mu.Lock()
					defer mu.Unlock()
					made[a.DeliveryID]++
					return test.answer(ctx, made[a.DeliveryID]-1)
				}
				for at := 1; ; at++ {
					id := h.subscribe("run.failed")
					for range events {
						h.emit("run.failed")
					}
					d := h.Deps
					d.Writer = &crashingWriter{Writer: h.db, left: at}
					err := webhook.New(d).Handle(t.Context(), h.claim())
					if err != nil && !errors.Is(err, errCrashed) {
						t.Fatal(err)
					}
					written := map[string]bool{}
					for _, e := range h.log(id) {
						if e.State != webhook.Pending {
							written[e.ID] = true
						}
					}
					mu.Lock()
					before := map[string]int{}
					for delivery := range written {
						before[delivery] = made[delivery]
					}
					mu.Unlock()
					h.after(2 * time.Minute) // after its lease has expired
					sub, failed, settled := h.find(id), int64(0), 0
					for _, e := range h.log(id) {
						if e.State == webhook.Failed {
							failed++
						}
						if e.State != webhook.Pending {
							settled++
						}
						if written[e.ID] && made[e.ID] != before[e.ID] {
							t.Errorf("crash at %d: a stored attempt was repeated", at)
						}
						if e.State != webhook.Pending && made[e.ID] == 0 {
							t.Errorf("crash at %d: an attempt that was not made is stored", at)
						}
					}
					if sub.Failures != failed || sub.Status != test.status || failed < test.failed || test.failed == 0 && settled != events {
						t.Errorf("crash at %d: %d of %d events are settled, %d failed; the subscription is %+v", at, settled, events, failed, sub)
					}
					if _, gone := call[any](h, "deleteWebhook", func(in any) { set(in, "WebhookID", id) }); gone != nil {
						t.Fatal(gone)
					}
					if err == nil {
						if at < 4 {
							t.Errorf("a dispatcher made only %d writes", at-1)
						}
						return
					}
				}
			})
		})
	}
}

// Dispatchers that lose their lease release their slots.
func TestSlotsAreReleased(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		id := h.subscribe("run.failed")
		for range 8 {
			h.emit("run.failed")
		}
		for range 5 { // times 8: more than there are slots
			var begun sync.WaitGroup
			begun.Add(8)
			h.answer = func(ctx context.Context, _ int, _ webhook.Request) webhook.Outcome {
				begun.Done()
				<-ctx.Done()
				return webhook.Outcome{Failure: "The delivery was interrupted before a response came."}
			}
			ctx, stop := context.WithCancelCause(t.Context())
			done := make(chan error)
			go func(held work.Lease) { done <- h.Handle(ctx, held) }(h.claim())
			begun.Wait()
			stop(work.ErrLost)
			if err := <-done; !errors.Is(err, work.ErrLost) {
				t.Fatal(err)
			}
			h.clock.Advance(2 * time.Minute)
		}
		h.answer = nil
		if h.work(); !h.due().IsZero() || h.find(id).Failures != 0 {
			t.Errorf("work is left for %v; %+v", h.due(), h.find(id))
		}
	})
}
