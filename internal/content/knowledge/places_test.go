package knowledge_test

import (
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/share"
)

// A company that has its share of the texts that are made at a time waits, and is asked
// to retry; others do not wait for it.
func TestPlacesAreShared(t *testing.T) {
	each(t, func(r *rig) {
		r.Places = share.New(2, 1, time.Millisecond)
		try := func(string) error {
			_, err := r.add(text("Tea is served at five.", "tea.txt"))
			return err
		}
		release, err := r.Places.Acquire(r.Context(), r.who.TenantID)
		if err != nil {
			r.Fatal(err)
		}
		if err := try(r.who.TenantID); !fault.Is(err, fault.Unavailable) || fault.From(err).RetryAfter == 0 {
			r.Errorf("beyond the company's share: %v", err)
		}
		elsewhere, err := r.Places.Acquire(r.Context(), "another company") // which has its own
		if err != nil {
			r.Fatal(err)
		}
		elsewhere()
		release()
		if err := try(r.who.TenantID); err != nil {
			r.Errorf("afterwards: %v", err)
		}
	})
}
