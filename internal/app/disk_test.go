package app

import (
	"log/slog"
	"testing"

	"agentd/internal/base/fault"
	"agentd/internal/base/lasting"
)

func TestDisk(t *testing.T) {
	t.Parallel()
	free, known := uint64(0), true
	d := &disk{
		free: func() (uint64, bool) { return free, known }, reserve: 100, low: lasting.New(slog.New(slog.DiscardHandler), "low"),
	}
	for _, step := range []struct {
		free   uint64
		known  bool
		closed bool
	}{
		{200, true, false}, {100, true, false}, {99, true, true}, {124, true, true}, {500, false, true}, {125, true, false}, {0, false, false}, {0, true, true},
	} {
		free, known = step.free, step.known
		d.look()
		if err := d.refuse(); fault.Is(err, fault.Unavailable) != step.closed || len(d.degraded()) > 0 != step.closed {
			t.Errorf("with %d free (known: %t): %v, %v", step.free, step.known, err, d.degraded())
		}
	}
	if err := (*disk)(nil).refuse(); err != nil {
		t.Error(err)
	}
}
