package webhook

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	// kept is how long the log is kept (interface.md section 8).
	kept = 7 * 24 * time.Hour
	// sweepEvery is about how often a node looks for what is older.
	sweepEvery = time.Hour
)

// Serve forgets old entries of the log until ctx ends.
func (s *Service) Serve(ctx context.Context, log *slog.Logger) {
	for {
		timer := time.NewTimer(sweepEvery/2 + rand.N(sweepEvery))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			log.Warn("old webhook deliveries could not be removed", "cause", err)
		}
	}
}

// Sweep forgets what is older than 7 days: deliveries, those that wait for a
// disabled subscription too, and events.
func (s *Service) Sweep(ctx context.Context) error {
	return s.Store.DeleteBefore(ctx, s.Clock.Now().Add(-kept))
}
