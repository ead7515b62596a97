// Package permission keeps what each agent may do at most: its permission set. The
// engine asks before every act. A child of an agent is within its parent's set at every
// act, also after the parent's was reduced, so nothing has to be written to the children.
//
// The sets of a company have a version, which stands beside that of its constitution and
// is read with it. A company whose version is 0 has no sets: its acts cost nothing here.
package permission

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/cache"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/ptr"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/resource"
)

// What a set has that is written for the first time, where the writer leaves it out.
const (
	firstBudget = 1.0
	firstDepth  = 3
)

// Set is what an agent may do at most.
type Set struct {
	resource.Meta `json:"-"` // the ID is that of the agent

	AllowedTools        []string          `json:"allowed_tools" required:"true" maxItems:"1000" maxLength:"200" doc:"Names of tools; a * at the end matches any ending. Empty: none."`
	AllowedRoles        []string          `json:"allowed_roles" maxItems:"200" maxLength:"200" doc:"Roles that it may spawn agents for. Empty: any."`
	ResourcePermissions []policy.Resource `json:"resource_permissions" maxItems:"100" doc:"What its tools may do with data of the company. Empty: whatever the tools do."`
	MaxBudgetPerRunUSD  float64           `json:"max_budget_per_run_usd" minimum:"0" maximum:"1000000000" doc:"US dollars for the model calls of each of its runs, with those of the runs that they start; 0: no cap."`
	MaxSpawnDepth       int64             `json:"max_spawn_depth" required:"true" minimum:"0" maximum:"100" doc:"Levels of agents below it."`
	CanSpawn            bool              `json:"can_spawn" required:"true" doc:"Whether it may spawn agents."`
	CanSelfModify       bool              `json:"can_self_modify" doc:"Whether proposals that it makes about its own permissions are carried out."`
	ParentAgentID       *string           `json:"parent_agent_id" maxLength:"36" ref:"agent" doc:"The agent whose permissions bound these at every act; null: none. Once there is one, it stays."`
	BudgetIsDefault     bool              `json:"budget_is_default,omitzero" readOnly:"true" doc:"Whether the budget was left out when the set was first written. Such a one does not bind models without a price."`
	SpawnedBy           string            `json:"spawned_by,omitzero" readOnly:"true" doc:"The member, or the run, that made it a child of its parent."`
	Sanction            *Sanction         `json:"sanction,omitzero" readOnly:"true" doc:"While there is one, the agent may do nothing."`
}

// Sanction keeps an agent, and those below it, from doing anything.
type Sanction struct {
	_ struct{} `json:"-" name:"PermissionSanction"`

	Reason    string    `json:"reason" required:"true"`
	RunID     string    `json:"run_id,omitzero" doc:"The run that broke the rule."`
	CreatedAt time.Time `json:"created_at" required:"true"`
}

// parent returns the ID of the agent that bounds the set; "": none.
func (s *Set) parent() string { return ptr.Value(s.ParentAgentID) }

// Versions is the port to the version of a company's sets.
type Versions interface {
	// PermissionsVersion returns 0 for a company that has none. It may be half a second old.
	PermissionsVersion(ctx context.Context, tenant string) (int64, error)
	// PermissionsChangedTx counts the version up. Until commit it locks the company's
	// sets for other writers, so it is called before they are read.
	PermissionsChangedTx(tx txn.Tx, tenant string) error
}

// Creation is how an agent came to be.
type Creation struct {
	ParentID string // the agent that spawned it; "": none did
	By       string // the member or run that asked for it; "": not known
	At       time.Time
}

// Options are what permissions need of others.
type Options struct {
	Ledger   ledger.Appender
	Versions Versions
	// Rules judges what the permissions allow; nil: nothing else forbids anything.
	Rules policy.Governor
	// AgentTx locks an agent. Errors: fault.NotFound.
	AgentTx func(tx txn.Tx, tenant, id string) error
	// Agent returns how an agent came to be. Errors: fault.NotFound.
	Agent func(ctx context.Context, tenant, id string) (Creation, error)
}

// Permissions keeps the permission sets and spawn policies of all companies.
type Permissions struct {
	Options
	deps     resource.Deps
	sets     *resource.Store[Set]
	policies *resource.Store[SpawnPolicy]
	bounds   *cache.Cache[boundsKey, *bounds]
}

var (
	_ policy.Governor = (*Permissions)(nil)
	_ policy.Spawns   = (*Permissions)(nil)
)

// New returns the permissions.
func New(deps resource.Deps, o Options) *Permissions {
	p := &Permissions{Options: o, deps: deps, bounds: cache.New(cache.Options[boundsKey, *bounds]{Most: 10_000})}
	p.sets = resource.NewStore(p.setKind(), deps)
	p.policies = resource.NewStore(p.policyKind(), deps)
	return p
}

// Sets returns what keeps the sets.
func (p *Permissions) Sets() *resource.Store[Set] { return p.sets }

func (p *Permissions) setKind() resource.Kind[Set] {
	return resource.Kind[Set]{
		Name: "permission_set", Noun: "PermissionSet", Path: "/api/v1/governance/permissions", IDField: "agent_id", Param: "agentId",
		Tag:     "Governance",
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Admin},
		Omit:    []resource.Op{resource.OpCreate, resource.OpList, resource.OpPatch, resource.OpDelete},
		Indexes: []resource.Index[Set]{{Name: "parent_agent_id", Of: (*Set).parent}},
		Before:  p.checkParent,
		After:   p.recordSet,
	}
}

// maxChain bounds how many agents bound each other.
const maxChain = 32

// checkParent refuses a parent that is changed, unknown, or below the agent.
func (p *Permissions) checkParent(e *resource.Edit[Set]) error {
	id := e.New.parent()
	if e.Old != nil && e.Old.parent() == id {
		return nil
	}
	if e.Old != nil && e.Old.parent() != "" {
		return wrongParent("it cannot be changed: the agent stays within the permissions of its parent.")
	}
	if id == "" {
		return nil
	}
	if !ident.Valid(id) {
		return fault.NewNotFound("agent")
	}
	if err := p.AgentTx(e.Tx, e.Who.TenantID, id); err != nil {
		return err
	}
	for n := 1; id != ""; n++ {
		if id == e.New.ID {
			return wrongParent("it is the agent itself, or an agent below it.")
		}
		if n > maxChain {
			return wrongParent("it has too many agents above it.")
		}
		up, err := p.sets.GetTx(e.Tx, e.Who.TenantID, id)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		id = up.parent()
	}
	return nil
}

func wrongParent(message string) error {
	return fault.BadFields(fault.Field{Field: "parent_agent_id", Message: message})
}

// recordSet writes a change of a set to the ledger.
func (p *Permissions) recordSet(e *resource.Edit[Set]) error {
	kind, s := "permission.set", e.New
	switch {
	case e.Action == resource.Deleted:
		kind, s = "permission.removed", e.Old
	case s.Sanction != nil && (e.Old == nil || e.Old.Sanction == nil):
		kind = "permission.revoked"
	case e.Old != nil && e.Old.Sanction != nil && s.Sanction == nil:
		kind = "permission.restored"
	}
	return p.Ledger.AppendTx(e.Tx, e.Who.TenantID, ledger.Entry{
		Kind: kind, ActorUserID: e.Who.UserID, SubjectAgentID: s.ID, Details: s,
	})
}

// blank returns a set for an agent that has none.
func (p *Permissions) blank(id string) *Set {
	s := p.sets.Blank()
	s.ID, s.MaxSpawnDepth = id, firstDepth
	s.AllowedTools, s.AllowedRoles, s.ResourcePermissions = []string{}, []string{}, []policy.Resource{}
	return s
}

// RevokeTx keeps an agent from doing anything: the penalty of a rule. A set that it has
// is kept; one that it gets allows everything once the sanction is lifted, as none did.
func (p *Permissions) RevokeTx(tx txn.Tx, tenant, agent, runID, reason string) error {
	if err := p.Versions.PermissionsChangedTx(tx, tenant); err != nil {
		return err
	}
	who := authz.Caller{TenantID: tenant}
	sanction := &Sanction{Reason: reason, RunID: runID, CreatedAt: p.deps.Clock.Now().Truncate(time.Microsecond)}
	_, err := p.sets.GetTx(tx, tenant, agent)
	if fault.Is(err, fault.NotFound) {
		s := p.blank(agent)
		s.AllowedTools, s.CanSpawn, s.Sanction = []string{"*"}, true, sanction
		return p.sets.CreateTx(tx, who, s)
	}
	if err != nil {
		return err
	}
	_, err = p.sets.UpdateTx(tx, who, agent, func(s *Set) error {
		s.Sanction = sanction
		return nil
	})
	return err
}

// AgentDeleted removes the sets that bound no one any more: the agent's, unless it has
// children, and those of deleted agents above it that have no other.
func (p *Permissions) AgentDeleted(ctx context.Context, tenant, id string) error {
	return p.deps.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := p.Versions.PermissionsChangedTx(tx, tenant); err != nil {
			return err
		}
		for next := id; next != ""; {
			s, err := p.sets.GetTx(tx, tenant, next)
			if fault.Is(err, fault.NotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			below, err := p.sets.ListTx(tx, tenant, resource.Find{Where: map[string]string{"parent_agent_id": next}, Limit: 1})
			if err != nil || len(below) > 0 {
				return err
			}
			if next != id { // not locked: agents are locked before sets
				if _, err := p.Agent(ctx, tenant, next); !fault.Is(err, fault.NotFound) {
					return err
				}
			}
			if err := p.sets.DeleteTx(tx, authz.Caller{TenantID: tenant}, next); err != nil {
				return err
			}
			next = s.parent()
		}
		return nil
	})
}
