package app

import (
	"context"
	"crypto/ed25519"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/governance/ledger"
	"agentd/internal/governance/ledger/ledgersql"
)

// governance is the rules that agents act under, and the record of what was decided
// by them.
type governance struct {
	off    bool
	ledger *ledger.Ledger
}

func newGovernance(p *platform) *governance {
	var keys []ed25519.PrivateKey
	for _, seed := range p.box.DeriveAll("ledger") {
		keys = append(keys, ed25519.NewKeyFromSeed(seed))
	}
	return &governance{
		off: p.cfg.Governance.Off(),
		ledger: ledger.New(ledger.Deps{
			Store: ledgersql.New(p.db), Writer: p.db, Clock: p.clock, Key: keys[0], Former: keys[1:], Log: p.log, Off: p.cfg.Governance.Off(),
		}),
	}
}

func (g *governance) part() part {
	made := part{name: "governance", routes: slices.Concat(g.ledger.Routes())}
	if g.off {
		for i := range made.routes {
			made.routes[i] = switchedOff(made.routes[i])
		}
		return made
	}
	made.services = []service{background(g.ledger.Serve)}
	return made
}

// switchedOff returns the route with an answer that says that governance is off.
func switchedOff(r route.Route) route.Route {
	r.Call = func(context.Context, authz.Caller, any) (any, error) {
		return nil, fault.New(fault.Unsupported, "governance_not_enabled", "Governance is switched off on this service (AGENTD_GOVERNANCE=off).")
	}
	return r
}
