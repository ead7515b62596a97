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

// dying is a writer whose process dies with its nth write: that one and all that
// follow never happen.
type dying struct {
	txn.Writer
	mu   sync.Mutex
	left int
}

var errDead = errors.New("the process died")

func (d *dying) Write(ctx context.Context, do func(txn.Tx) error) error {
	d.mu.Lock()
	d.left--
	left := d.left
	d.mu.Unlock()
	if left <= 0 {
		return errDead
	}
	return d.Writer.Write(ctx, do)
}

// A process dies at every write of a lane. Every event arrives all the same,
// what was written down is not sent again, and each failure that is in the log
// has counted once.
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
			each(t, func(t *testing.T, r *rig) {
				var mu sync.Mutex
				made := map[string]int{} // deliveries
				r.answer = func(ctx context.Context, _ int, a webhook.Attempt) webhook.Outcome {
					mu.Lock()
					defer mu.Unlock()
					made[a.DeliveryID]++
					return test.answer(ctx, made[a.DeliveryID]-1)
				}
				for at := 1; ; at++ {
					id := r.hook("run.failed")
					for range events {
						r.emit("run.failed")
					}
					d := r.Deps
					d.Writer = &dying{Writer: r.db, left: at}
					err := webhook.New(d).Handle(t.Context(), r.claim())
					if err != nil && !errors.Is(err, errDead) {
						t.Fatal(err)
					}
					written := map[string]bool{}
					for _, e := range r.log(id) {
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
					r.after(2 * time.Minute) // beyond its lease
					sub, failed, settled := r.find(id), int64(0), 0
					for _, e := range r.log(id) {
						if e.State == webhook.Failed {
							failed++
						}
						if e.State != webhook.Pending {
							settled++
						}
						if written[e.ID] && made[e.ID] != before[e.ID] {
							t.Errorf("crash at %d: what was written down was sent again", at)
						}
						if e.State != webhook.Pending && made[e.ID] == 0 {
							t.Errorf("crash at %d: what was not sent is written down", at)
						}
					}
					if sub.Failures != failed || sub.Status != test.status || failed < test.failed || test.failed == 0 && settled != events {
						t.Errorf("crash at %d: %d of %d events are settled, %d failed; the subscription is %+v", at, settled, events, failed, sub)
					}
					if _, gone := call[any](r, "deleteWebhook", func(in any) { set(in, "WebhookID", id) }); gone != nil {
						t.Fatal(gone)
					}
					if err == nil {
						if at < 4 {
							t.Errorf("a lane has only %d writes", at-1)
						}
						return
					}
				}
			})
		})
	}
}

// Lanes that are lost give back the turns that they took: others go on.
func TestTurnsComeBack(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		id := r.hook("run.failed")
		for range 8 {
			r.emit("run.failed")
		}
		for range 5 { // times 8: more than there are turns
			var begun sync.WaitGroup
			begun.Add(8)
			r.answer = func(ctx context.Context, _ int, _ webhook.Attempt) webhook.Outcome {
				begun.Done()
				<-ctx.Done()
				return webhook.Outcome{Failure: "The delivery was broken off before an answer came."}
			}
			ctx, stop := context.WithCancelCause(t.Context())
			done := make(chan error)
			go func(held work.Lease) { done <- r.Handle(ctx, held) }(r.claim())
			begun.Wait()
			stop(work.ErrLost)
			if err := <-done; !errors.Is(err, work.ErrLost) {
				t.Fatal(err)
			}
			r.clock.Advance(2 * time.Minute)
		}
		r.answer = nil
		if r.work(); !r.due().IsZero() || r.find(id).Failures != 0 {
			t.Errorf("something is left for %v; %+v", r.due(), r.find(id))
		}
	})
}
