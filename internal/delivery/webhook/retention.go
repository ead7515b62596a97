package webhook

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/kernel/work"
)

const (
	// logRetention is how long attempts and events are kept.
	logRetention = 7 * 24 * time.Hour
	// sweepInterval is about how often a node deletes what is older.
	sweepInterval = time.Hour
)

// Serve deletes old entries of the delivery log until ctx ends.
func (s *Service) Serve(ctx context.Context, log *slog.Logger) {
	work.Every(ctx, sweepInterval, log, "old webhook deliveries could not be removed", s.Sweep)
}

// Sweep deletes the attempts and events that are older than logRetention, also
// attempts that are pending for a disabled subscription.
func (s *Service) Sweep(ctx context.Context) error {
	return s.Store.DeleteBefore(ctx, s.Clock.Now().Add(-logRetention))
}
