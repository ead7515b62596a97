package app

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/governance/permission"
	"agentd/internal/governance/voting"
	"agentd/internal/kernel/policy"
)

// permissions is what each agent may do at most.
type permissions struct {
	off  bool
	sets *permission.Permissions
}

func newPermissions(p *platform, g *governance, a *agents) *permissions {
	return &permissions{off: g.off, sets: permission.New(p.kernel, permission.Options{
		Ledger: g.ledger, Versions: g.constitution, Rules: g.constitution,
		AgentTx: a.lockTx,
		Agent: func(ctx context.Context, tenant, id string) (permission.Creation, error) {
			found, err := a.agents.Get(ctx, tenant, id)
			if err != nil {
				return permission.Creation{}, err
			}
			l := found.Lineage()
			return permission.Creation{ParentID: l.ParentID, By: l.SpawnedBy + l.SpawnedByRun, At: found.CreatedAt}, nil
		},
	})}
}

// governor returns what the engine asks before each act; nil if governance is off.
func (s *permissions) governor() policy.Governor {
	if s.off {
		return nil
	}
	return s.sets
}

// costCap returns what bounds the costs of runs; nil if governance is off.
func (s *permissions) costCap() run.CostCap {
	if s.off {
		return nil
	}
	return s.sets.Budget
}

// spawns returns what decides about agents that agents create; nil if governance is off.
func (s *permissions) spawns() policy.Spawns {
	if s.off {
		return nil
	}
	return s.sets
}

func (s *permissions) part() part {
	made := part{name: "permissions", routes: s.sets.Routes()}
	if s.off {
		switchOff(made.routes)
		return made
	}
	made.subscribers = []subscriber{
		onAgentDeleted("permissions-of-deleted-agents", func(ctx context.Context, c agentChange) error {
			return s.sets.AgentDeleted(ctx, c.TenantID, c.ID)
		}),
	}
	return made
}

// executor carries out passed proposals to change permissions.
func (s *permissions) executor() voting.Executor {
	return voting.Executor{
		Check: func(payload schema.Object) []fault.Field {
			wrong := slices.Clone(permission.CheckBody(jsontext.Value(payload)))
			for i := range wrong {
				wrong[i].Field = "payload." + wrong[i].Field
			}
			return append(voting.NeedsAgent(payload), wrong...)
		},
		DoTx: func(tx txn.Tx, who authz.Caller, p *voting.Proposal) error {
			agent := voting.AgentOf(p.Payload)
			if ptr.Value(p.ProposerAgentID) == agent {
				if err := s.sets.MayModifyItselfTx(tx, who.TenantID, agent); err != nil {
					return err
				}
			}
			return s.sets.PutTx(tx, who, agent, jsontext.Value(p.Payload))
		},
	}
}
