package knowledge_test

import (
	"testing"
	"time"

	"agentd/internal/base/share"
	"agentd/internal/base/share/sharetest"
)

// A company that has its share of the texts that are made at a time waits, and is asked
// to retry; others do not wait for it.
func TestPlacesAreShared(t *testing.T) {
	each(t, func(r *rig) {
		r.Places = share.New(2, 1, time.Millisecond)
		sharetest.Refuses(r.TB, r.Places, r.who.TenantID, func() error {
			_, err := r.add(text("Tea is served at five.", "tea.txt"))
			return err
		})
	})
}
