package app

import (
	"reflect"
	"testing"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/governance/ledger"
)

func TestGovernanceIsSwitchedOff(t *testing.T) {
	t.Parallel()
	g := &governance{off: true, ledger: ledger.New(ledger.Deps{Off: true})}
	made := g.part()
	if len(made.routes) == 0 || len(made.services)+len(made.workers)+len(made.watchers)+len(made.subscribers) != 0 {
		t.Errorf("a part that is off has %d routes and works", len(made.routes))
	}
	for _, r := range made.routes {
		_, err := r.Call(t.Context(), authz.Caller{}, reflect.New(r.In).Interface())
		if !fault.Is(err, fault.Unsupported) || fault.From(err).Code != "governance_not_enabled" {
			t.Errorf("%s: %v", r.ID, err)
		}
	}
}
