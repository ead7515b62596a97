package work

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Every calls job again and again until ctx ends, with half to one and a half
// intervals before each call: nodes that start together do not stay in step.
// An error is logged as a warning with the message failed, and the next call is
// made as usual. It is for upkeep that any node may do at any time; work that
// must be done once goes through a [Queue].
func Every(ctx context.Context, interval time.Duration, log *slog.Logger, failed string, job func(context.Context) error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(interval/2 + rand.N(interval))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := job(ctx); err != nil && ctx.Err() == nil {
			log.Warn(failed, "err", err)
		}
	}
}
