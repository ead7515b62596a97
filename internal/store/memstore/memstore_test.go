package memstore_test

import (
	"testing"

	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/memstore"
)

func TestBackend(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	resourcetest.Backend(t, s, s)
}
