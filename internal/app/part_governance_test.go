package app

import (
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/governance/constitution"
	"agentd/internal/governance/ledger"
)

func TestGovernanceIsSwitchedOff(t *testing.T) {
	t.Parallel()
	g := &governance{off: true, ledger: ledger.New(ledger.Deps{Off: true}), constitution: constitution.New(constitution.Deps{
		Elapsed: func() time.Duration { return 0 },
	})}
	made := g.part(nil)
	if len(made.routes) == 0 || len(made.services)+len(made.workers)+len(made.watchers)+len(made.subscribers) != 0 {
		t.Errorf("a part that is off has %d routes and works", len(made.routes))
	}
	for _, r := range made.routes {
		if !fault.Is(r.Off, fault.Unsupported) || fault.From(r.Off).Code != "governance_not_enabled" {
			t.Errorf("%s: %v", r.ID, r.Off)
		}
	}
}
