package memstore_test

import (
	"testing"

	"agentd/internal/memstore"
	"agentd/internal/resource/resourcetest"
)

func TestBackend(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	resourcetest.Backend(t, s, s)
}
