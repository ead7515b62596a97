package memory_test

import (
	"testing"
	"time"

	"agentd/internal/base/share"
	"agentd/internal/base/share/sharetest"
	"agentd/internal/content/memory"
)

// A company that has its share of the texts that are made at a time waits, and is asked
// to retry; others do not wait for it.
func TestPlacesAreShared(t *testing.T) {
	each(t, func(r *rig) {
		r.Places = share.New(2, 1, time.Millisecond)
		agent := r.agent(`{"enabled":true}`)
		sharetest.Refuses(r.T, r.Places, r.who.TenantID, func() error {
			_, err := r.Ingest(r.Context(), r.who.TenantID, agent, memory.Document{Content: "Tea is served at five.", Filename: "tea.txt", ChunkSize: 100})
			return err
		})
	})
}
