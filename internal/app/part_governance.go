package app

import (
	"crypto/ed25519"
	"slices"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/constitution"
	"agentd/internal/governance/constitution/constitutionsql"
	"agentd/internal/governance/ledger"
	"agentd/internal/governance/ledger/ledgersql"
	"agentd/internal/governance/voting"
)

// governance is the rules that agents act under, and the record of what was decided
// by them.
type governance struct {
	off          bool
	ledger       *ledger.Ledger
	constitution *constitution.Service
}

// signalGovernance makes every node read the rules of a tenant again.
const signalGovernance = "governance"

func newGovernance(p *platform) *governance {
	var keys []ed25519.PrivateKey
	for _, seed := range p.box.DeriveAll("ledger") {
		keys = append(keys, ed25519.NewKeyFromSeed(seed))
	}
	g := &governance{
		off: p.cfg.Governance.Off(),
		ledger: ledger.New(ledger.Deps{
			Store: ledgersql.New(p.db), Writer: p.db, Clock: p.clock, Key: keys[0], Former: keys[1:], Log: p.log, Off: p.cfg.Governance.Off(),
			HasTenant: p.audit.Store.HasTenant,
		}),
	}
	start := time.Now()
	g.constitution = constitution.New(constitution.Deps{
		Store: constitutionsql.New(p.db), Writer: p.db, Clock: p.clock, Ledger: g.ledger, Audit: p.audit, Cursors: p.cursors,
		Signal:  func(tenant string) { p.hub.Signal(signalGovernance, tenant) },
		Elapsed: func() time.Duration { return time.Since(start) },
	})
	return g
}

// connect lets rules suspend agents and revoke their permissions, and votes amend rules.
func (g *governance) connect(agents *agent.Agents, permitted *permissions, votes *voting.Voting) {
	suspend := func(tx txn.Tx, tenant, id, reason string) error {
		_, err := agents.Store().UpdateTx(tx, authz.Caller{TenantID: tenant}, id, func(a *agent.Agent) error {
			a.Status, a.StatusReason, a.StatusReasonCode = agent.Suspended, reason, "governance"
			return nil
		})
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	}
	exists := func(tx txn.Tx, tenant, id string) error {
		_, err := agents.Store().GetTx(tx, tenant, id)
		return err
	}
	g.constitution.Connect(constitution.Penalties{SuspendTx: suspend, RevokeTx: permitted.sets.RevokeTx, AgentTx: exists}, votes)
}

func (g *governance) part(p *platform) part {
	made := part{name: "governance", routes: slices.Concat(g.ledger.Routes(), g.constitution.Routes())}
	if g.off {
		switchOff(made.routes)
		return made
	}
	made.services = []service{background(g.ledger.Serve), p.onSignal(signalGovernance, g.constitution.Drop)}
	return made
}

// switchOff has routes answer that governance is off.
func switchOff(routes []route.Route) {
	for i := range routes {
		routes[i].Off = fault.New(
			fault.Unsupported, "governance_not_enabled", "Governance is switched off on this service (AGENTD_GOVERNANCE=off).")
	}
}
