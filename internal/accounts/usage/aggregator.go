package usage

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/base/txn"
)

const (
	// aggregateDelay is how long entries are collected: many become one change of a
	// counter.
	aggregateDelay = time.Second
	// aggregateAlways is how often entries are looked for that this process did not
	// append: those of a node that died.
	aggregateAlways = time.Minute
	// maxAggregated bounds the entries of a transaction, for which others wait.
	maxAggregated = 500
)

// aggregator adds the entries of the meter to the counters.
type aggregator struct {
	store  Store
	writer txn.Writer
	logger *slog.Logger
	some   chan struct{} // has an element if there may be entries
}

func (a *aggregator) wake() {
	select {
	case a.some <- struct{}{}:
	default:
	}
}

// ServeEntries aggregates until ctx ends.
func (a *aggregator) ServeEntries(ctx context.Context) {
	always := time.NewTicker(aggregateAlways)
	defer always.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-always.C:
		case <-a.some:
			wait := time.NewTimer(aggregateDelay)
			select {
			case <-ctx.Done():
			case <-wait.C:
			}
			wait.Stop()
		}
		if _, err := a.Aggregate(ctx); err != nil && ctx.Err() == nil {
			a.logger.Warn("could not add usage to the counters; will retry", "err", err)
			a.wake()
		}
	}
}

// Aggregate adds the entries of all tenants to the counters, and returns how many
// transactions that took.
func (a *aggregator) Aggregate(ctx context.Context) (transactions int, err error) {
	for {
		var n int
		err := a.writer.Write(ctx, func(tx txn.Tx) (err error) {
			n, err = a.store.SettleTx(tx, maxAggregated)
			return err
		})
		if err != nil {
			return transactions, err
		}
		transactions++
		if n < maxAggregated {
			return transactions, nil
		}
	}
}
