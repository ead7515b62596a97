package search

import (
	"time"

	"agentd/internal/kernel/work"
)

// RunsItem is the work that Serve leaves.
func RunsItem(now time.Time) work.Item { return work.Item{Kind: WorkKind, Key: runsKey, Due: now} }

// ReadRuns is how many runs are read at once.
const ReadRuns = readRuns
