package blob

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

const (
	sweepEvery = time.Minute
	sweepBatch = 100
	// sweepParts is how many parts one transaction removes: others wait for it.
	sweepParts = 8
)

// Serve removes the parts that nothing refers to any more, until ctx ends.
func (s *Store) Serve(ctx context.Context, log *slog.Logger) {
	const failed = "stored bytes that nothing refers to could not be removed; the next turn tries again"
	work.Every(ctx, sweepEvery, log, failed, func(ctx context.Context) error {
		_, err := s.Sweep(ctx)
		return err
	})
}

// Sweep removes every set that is due by now, and returns how many it removed.
// It continues after one that cannot be removed.
func (s *Store) Sweep(ctx context.Context) (removed int, err error) {
	for {
		due, failure := s.Table.ListDue(ctx, s.Clock.Now(), sweepBatch)
		if failure != nil {
			return removed, errors.Join(err, failure)
		}
		before := removed
		for _, l := range due {
			if failure := s.remove(ctx, l); failure != nil {
				err = errors.Join(err, failure)
				continue
			}
			removed++
		}
		if len(due) < sweepBatch || removed == before {
			return removed, err
		}
	}
}

func (s *Store) remove(ctx context.Context, l Loose) error {
	for done := false; !done; {
		err := s.Writer.Write(ctx, func(tx txn.Tx) (err error) {
			done, err = s.Table.DeletePartsTx(tx, l, sweepParts)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
