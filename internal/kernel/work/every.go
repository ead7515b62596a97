package work

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Every calls job repeatedly until ctx ends. Before each call it waits for half to
// one and a half intervals at random, so that nodes that started together do not
// work at the same time. An error is logged as a warning with the message failed
// and changes nothing else. Every is for maintenance that any node may do at any
// time; work that must be done exactly once goes through a [Queue].
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
