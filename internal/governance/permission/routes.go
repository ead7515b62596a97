package permission

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/policy"
)

type agentIn struct {
	AgentID string `path:"agentId" format:"any" maxLength:"100"`
}

type putIn struct {
	AgentID string `path:"agentId" format:"any" maxLength:"100"`
	Body    jsontext.Value
}

// Update is the body of a change of a set. It is published; the set is changed by what
// of it was sent.
type Update struct {
	_ struct{} `json:"-" name:"PermissionSetUpdate"`

	policy.Permissions

	ParentAgentID *string         `json:"parent_agent_id,omitzero" nullable:"true" maxLength:"36" ref:"agent" doc:"The agent whose permissions bound these at every act. It can be set once, and stays."`
	Sanction      schema.Nullable `json:"sanction,omitzero" doc:"null lifts a sanction. Any other value changes nothing."`
}

// Done is the answer of a change.
type Done struct {
	_ struct{} `json:"-" name:"PermissionsDone"`

	OK bool `json:"ok" required:"true"`
}

// Lineage is the chain of agents that bound an agent.
type Lineage struct {
	_ struct{} `json:"-" name:"PermissionLineage"`

	AgentID   string     `json:"agent_id" required:"true"`
	Chain     []string   `json:"chain" required:"true" doc:"From the agent at the top to this one."`
	Depth     int        `json:"depth" required:"true" doc:"How many agents are above it."`
	ParentID  *string    `json:"parent_id" required:"true"`
	SpawnedBy string     `json:"spawned_by" required:"true" doc:"The member or the run that created it as a child; empty: an agent did not create it."`
	SpawnedAt *time.Time `json:"spawned_at" required:"true"`
}

type checkIn struct {
	Body struct {
		_ struct{} `json:"-" name:"SpawnCheck"`

		ParentAgentID    string             `json:"parent_agent_id" required:"true" minLength:"1" maxLength:"100" doc:"The agent that would spawn."`
		ChildPermissions policy.Permissions `json:"child_permissions" required:"true" doc:"What the child would have. What is left out is within its parent's."`
	}
}

// CheckResult is whether an agent may be created.
type CheckResult struct {
	_ struct{} `json:"-" name:"PermissionCheckResult"`

	Allowed bool     `json:"allowed" required:"true"`
	Reason  string   `json:"reason,omitzero"`
	Denied  []string `json:"denied_permissions,omitzero"`
}

// Policy is a company's spawn policy in requests and answers.
type Policy struct {
	_ struct{} `json:"-" name:"SpawnPolicyReplace"`

	ChildBudgetRatio          float64  `json:"child_budget_ratio" required:"true" minimum:"0" maximum:"1" doc:"The share of its parent's budget that a child has at most; 0: nothing to spend."`
	MaxDepth                  int64    `json:"max_depth" required:"true" minimum:"0" maximum:"30" doc:"Levels of agents below one that a person created."`
	AllowedRoles              []string `json:"allowed_roles" required:"true" maxItems:"200" maxLength:"200" doc:"Roles that agents may be spawned for. Empty: any."`
	RequireApprovalAboveDepth int64    `json:"require_approval_above_depth" required:"true" minimum:"0" maximum:"100" doc:"A person approves children that are deeper."`
	MaxChildrenPerAgent       int64    `json:"max_children_per_agent" required:"true" minimum:"0" maximum:"1000" doc:"Children of one agent, without deleted ones."`
}

// PolicyAnswer is a company's spawn policy.
type PolicyAnswer struct {
	_ struct{} `json:"-" name:"SpawnPolicy"`

	TenantID                  string     `json:"tenant_id" required:"true"`
	ChildBudgetRatio          float64    `json:"child_budget_ratio" required:"true"`
	MaxDepth                  int64      `json:"max_depth" required:"true"`
	AllowedRoles              []string   `json:"allowed_roles" required:"true"`
	RequireApprovalAboveDepth int64      `json:"require_approval_above_depth" required:"true"`
	MaxChildrenPerAgent       int64      `json:"max_children_per_agent" required:"true"`
	UpdatedAt                 *time.Time `json:"updated_at,omitzero" doc:"Absent where the company has none of its own."`
}

// Routes returns the operations.
func (p *Permissions) Routes() []route.Route {
	row := func(method, path, id, summary, doc string, refusals ...int) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1/governance/permissions" + path, ID: id, Tag: "Governance", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"agents:read"}, Errors: refusals,
		}
		if method != "GET" {
			r.Scopes, r.Role = []authz.Scope{"agents:write"}, authz.Admin
		}
		return r
	}
	get := row("GET", "/{agentId}", "getAgentPermissions", "Get the permissions of an agent", "404 if it has none.", 404)
	get.AnswerOf = p.sets.AnswerType()
	put := row("PUT", "/{agentId}", "setAgentPermissions", "Set the permissions of an agent",
		"What is left out stays as it is. A set that is written for the first time has a budget of 1 US dollar, 3 levels of agents, "+
			"and empty lists. It holds for the next act of runs that are under way, also of the agents below it.", 404, 422)
	put.BodyOf, put.Partial = reflect.TypeFor[Update](), true
	put.Example = `{"allowed_tools":["calculator"],"max_budget_per_run_usd":0.5}`
	check := row("POST", "/check-spawn", "checkSpawnPermission", "Check whether an agent may be spawned",
		"Nothing is created. The answer is what the permissions of the parent and the policy make of it.", 404, 422)
	check.Scopes, check.Role = []authz.Scope{"agents:read"}, ""
	check.Example = `{"parent_agent_id":"01a208c9-3505-7384-a98b-09054314b31a",` +
		`"child_permissions":{"allowed_tools":["calculator"]}}`
	replace := row("PUT", "/spawn-policy", "setSpawnPolicy", "Set the spawn policy", "Every field is needed.", 422)
	replace.Example = `{"child_budget_ratio":0.5,"max_depth":5,"allowed_roles":[],` +
		`"require_approval_above_depth":5,"max_children_per_agent":20}`
	return []route.Route{
		route.Action(row("GET", "/spawn-policy", "getSpawnPolicy", "Get the spawn policy",
			"A company that has set none has the defaults."), p.getPolicy),
		route.Action(replace, p.putPolicy),
		route.Action(row("DELETE", "/spawn-policy", "deleteSpawnPolicy", "Delete the spawn policy",
			"The defaults hold then. It also succeeds where there is none."), p.deletePolicy),
		route.Action(check, p.checkSpawn),
		route.Action(get, p.get),
		route.Action(put, p.put),
		route.Action(row("GET", "/{agentId}/lineage", "getPermissionLineage", "Get the lineage of an agent",
			"The agents whose permissions bound it, from the top.", 404), p.lineage),
	}
}

func (p *Permissions) get(ctx context.Context, who authz.Caller, in *agentIn) (*route.Reply, error) {
	s, err := p.sets.Get(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return nil, err
	}
	return p.sets.Reply(s)
}

func (p *Permissions) put(ctx context.Context, who authz.Caller, in *putIn) (*Done, error) {
	done := &Done{OK: true}
	err := p.deps.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := p.PutTx(tx, who, in.AgentID, in.Body); err != nil {
			return err
		}
		return txn.Answer(tx, done)
	})
	return done, err
}

// PutTx changes the set of an agent by what a body has, in the caller's transaction,
// which may be that of a vote. Errors: fault.NotFound for the agent; fault.Invalid;
// fault.Malformed.
func (p *Permissions) PutTx(tx txn.Tx, who authz.Caller, agent string, body jsontext.Value) error {
	if !ident.Valid(agent) {
		return fault.NewNotFound("agent")
	}
	if err := p.AgentTx(tx, who.TenantID, agent); err != nil {
		return err
	}
	if err := p.Versions.PermissionsChangedTx(tx, who.TenantID); err != nil {
		return err
	}
	members, err := schema.Members(body)
	if err != nil {
		return err
	}
	sent := func(name string) *jsontext.Value {
		at := slices.IndexFunc(members, func(m schema.Member) bool { return m.Name == name })
		if at < 0 {
			return nil
		}
		return &members[at].Value
	}
	first := func() *Set {
		s := p.blank(agent)
		s.MaxBudgetPerRunUSD, s.BudgetIsDefault = firstBudget, true
		return s
	}
	_, err = p.sets.MergeTx(tx, who, agent, body, first, func(s *Set) {
		if sent("max_budget_per_run_usd") != nil {
			s.BudgetIsDefault = false
		}
		if v := sent("sanction"); v != nil && v.Kind() == 'n' {
			s.Sanction = nil
		}
		if s.ParentAgentID != nil && s.SpawnedBy == "" {
			s.SpawnedBy = who.UserID
		}
	})
	return err
}

// CheckBody returns what is wrong with the body of a change, before there is a set.
func CheckBody(body jsontext.Value) []fault.Field {
	_, err := schema.Decode[Update](body)
	if err == nil {
		return nil
	}
	if f := fault.From(err); f.Fields != nil {
		return f.Fields
	}
	return []fault.Field{{Field: "", Message: fault.From(err).Detail}}
}

func (p *Permissions) lineage(ctx context.Context, who authz.Caller, in *agentIn) (*Lineage, error) {
	if !ident.Valid(in.AgentID) {
		return nil, fault.NewNotFound("agent")
	}
	made, missing := p.Agent(ctx, who.TenantID, in.AgentID)
	if missing != nil && !fault.Is(missing, fault.NotFound) {
		return nil, missing
	}
	sets, err := chain(in.AgentID, func(id string) (*Set, error) { return optional(p.sets.Get(ctx, who.TenantID, id)) })
	if err != nil {
		return nil, err
	}
	l := &Lineage{AgentID: in.AgentID, Chain: []string{in.AgentID}, SpawnedBy: made.By}
	top := made.ParentID // of an agent from before there were sets
	switch {
	case len(sets) > 0:
		top = sets[0].parent()
		for _, s := range sets[1:] {
			l.Chain = append(l.Chain, s.ID)
		}
		if up := sets[len(sets)-1].parent(); up != "" {
			l.Chain = append(l.Chain, up)
		}
		if sets[0].SpawnedBy != "" {
			l.SpawnedBy = sets[0].SpawnedBy
		}
	case missing != nil:
		return nil, missing
	case top != "":
		l.Chain = append(l.Chain, top)
	}
	if top != "" {
		l.ParentID = &top
	}
	slices.Reverse(l.Chain)
	l.Depth = len(l.Chain) - 1
	if !made.At.IsZero() {
		l.SpawnedAt = &made.At
	}
	return l, nil
}

func (p *Permissions) getPolicy(ctx context.Context, who authz.Caller, _ *struct{}) (*PolicyAnswer, error) {
	s, err := p.spawnPolicy(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	a := &PolicyAnswer{
		TenantID: who.TenantID, ChildBudgetRatio: s.ChildBudgetRatio, MaxDepth: s.MaxDepth, AllowedRoles: s.AllowedRoles,
		RequireApprovalAboveDepth: s.RequireApprovalAboveDepth, MaxChildrenPerAgent: s.MaxChildrenPerAgent,
	}
	if !s.UpdatedAt.IsZero() {
		a.UpdatedAt = &s.UpdatedAt
	}
	return a, nil
}

func (p *Permissions) putPolicy(ctx context.Context, who authz.Caller, in *struct{ Body Policy }) (*Done, error) {
	b := &in.Body
	return p.changePolicy(ctx, who, func(tx txn.Tx) error {
		s := p.policies.Blank()
		s.ChildBudgetRatio, s.MaxDepth, s.AllowedRoles = b.ChildBudgetRatio, b.MaxDepth, b.AllowedRoles
		s.RequireApprovalAboveDepth, s.MaxChildrenPerAgent = b.RequireApprovalAboveDepth, b.MaxChildrenPerAgent
		return p.putPolicyTx(tx, who, s)
	})
}

func (p *Permissions) deletePolicy(ctx context.Context, who authz.Caller, _ *struct{}) (*Done, error) {
	return p.changePolicy(ctx, who, func(tx txn.Tx) error {
		err := p.policies.DeleteTx(tx, who, policyID(who.TenantID))
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	})
}

func (p *Permissions) changePolicy(ctx context.Context, who authz.Caller, change func(txn.Tx) error) (*Done, error) {
	done := &Done{OK: true}
	err := p.deps.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := p.Versions.PermissionsChangedTx(tx, who.TenantID); err != nil {
			return err
		}
		if err := change(tx); err != nil {
			return err
		}
		return txn.Answer(tx, done)
	})
	return done, err
}

func (p *Permissions) checkSpawn(ctx context.Context, who authz.Caller, in *checkIn) (*CheckResult, error) {
	parent := in.Body.ParentAgentID
	if !ident.Valid(parent) {
		return nil, fault.NewNotFound("agent")
	}
	if _, err := p.Agent(ctx, who.TenantID, parent); err != nil {
		return nil, err
	}
	sets, err := chain(parent, func(id string) (*Set, error) { return optional(p.sets.Get(ctx, who.TenantID, id)) })
	if err != nil {
		return nil, err
	}
	spawning, err := p.spawnPolicy(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	if refused := p.check(&bounds{sets, spawning}, in.Body.ChildPermissions); refused != nil {
		return &CheckResult{Reason: refused.Reason, Denied: refused.Denied}, nil
	}
	return &CheckResult{Allowed: true}, nil
}
