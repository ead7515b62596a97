package webhook

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/kernel/work"
)

const (
	// kept is how long the log is kept (interface.md section 8).
	kept = 7 * 24 * time.Hour
	// sweepEvery is about how often a node looks for what is older.
	sweepEvery = time.Hour
)

// Serve forgets old entries of the log until ctx ends.
func (s *Service) Serve(ctx context.Context, log *slog.Logger) {
	work.Every(ctx, sweepEvery, log, "old webhook deliveries could not be removed", s.Sweep)
}

// Sweep forgets what is older than 7 days: deliveries, those that wait for a
// disabled subscription too, and events.
func (s *Service) Sweep(ctx context.Context) error {
	return s.Store.DeleteBefore(ctx, s.Clock.Now().Add(-kept))
}
