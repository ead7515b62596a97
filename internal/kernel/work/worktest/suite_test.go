package worktest_test

import (
	"testing"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/kernel/work/worktest"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	worktest.Run(t, func(_ *testing.T, clock clock.Clock) (work.Queue, txn.Writer) {
		q := worktest.NewQueue(clock, nil)
		return q, q
	})
}
