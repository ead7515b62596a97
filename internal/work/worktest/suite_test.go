package worktest_test

import (
	"testing"

	"agentd/internal/clock"
	"agentd/internal/txn"
	"agentd/internal/work"
	"agentd/internal/work/worktest"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	worktest.Run(t, func(_ *testing.T, clock clock.Clock) (work.Queue, txn.Writer) {
		q := worktest.NewQueue(clock, nil)
		return q, q
	})
}
