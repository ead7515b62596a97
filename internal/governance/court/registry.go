package court

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
)

// Registry has the arbiters of a company.
type Registry struct {
	resource.Meta `json:"-"`
	RegistrySettings
}

// RegistrySettings are what an admin decides about arbiters.
type RegistrySettings struct {
	ArbiterAgentIDs     []string `json:"arbiter_agent_ids" required:"true" maxItems:"100" maxLength:"36" ref:"agent" doc:"The agents that rule on cases. An empty list: admins rule themselves."`
	PanelSize           int      `json:"panel_size" required:"true" minimum:"1" maximum:"25" doc:"How many arbiters decide on an appeal."`
	RulingDeadlineHours float64  `json:"ruling_deadline_hours" required:"true" exclusiveMinimum:"0" maximum:"8760" doc:"When a ruling is due, in hours after the case was filed or appealed."`
	MaxAppeals          int      `json:"max_appeals" required:"true" minimum:"0" maximum:"10" doc:"How often a case may be appealed."`
}

// singleton is the unique value of the only registry of a company.
const singleton = "registry"

func registryKind() resource.Kind[Registry] {
	return resource.Kind[Registry]{
		Name: "arbiter_registry", Names: "arbiter_registries", Path: "/api/v1/governance/arbiter/registry", IDField: "id", Tag: "Governance",
		Unique: resource.Index[Registry]{Name: "company", Of: func(*Registry) string { return singleton }},
		Default: func(r *Registry) {
			r.ArbiterAgentIDs, r.PanelSize, r.RulingDeadlineHours, r.MaxAppeals = []string{}, 3, 72, 1
		},
	}
}

func (r *Registry) deadline() time.Duration {
	return time.Duration(r.RulingDeadlineHours * float64(time.Hour))
}

// registryTx returns the registry of a company, or its default.
func (c *Court) registryTx(tx txn.Tx, tenant string) (*Registry, error) {
	found, err := c.registries.ListTx(tx, tenant, resource.Find{Unique: singleton, Limit: 1})
	if err != nil || len(found) == 0 {
		return c.registries.Blank(), err
	}
	return found[0], nil
}

// agentsTx returns those of the agents that a company has, by their ids. It locks them
// in the order of their ids, as every transaction of this package does.
func (c *Court) agentsTx(tx txn.Tx, tenant string, ids []string) (map[string]Agent, error) {
	known := map[string]Agent{}
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	for _, id := range slices.Compact(sorted) {
		a, err := c.Agents.GetTx(tx, tenant, id)
		switch {
		case err == nil:
			known[id] = a
		case !fault.Is(err, fault.NotFound):
			return nil, err
		}
	}
	return known, nil
}

// draw draws up to n arbiters by lot, for a purpose that no one can choose, such as the
// id of a case: the same purpose draws the same arbiters, whatever happens beside it.
// Those who are involved are left out, as are their relatives, and the agents in
// without. Errors: fault.Conflict with no_eligible_arbiter.
func (r *Registry) draw(purpose string, n int, known map[string]Agent, involved, without []string) ([]string, error) {
	rank := map[string][]byte{}
	var drawn []string
	for _, id := range r.ArbiterAgentIDs {
		a, ok := known[id]
		conflict := slices.ContainsFunc(involved, func(other string) bool { return a.related(known[other]) })
		if !ok || !a.Active || conflict || slices.Contains(without, id) {
			continue
		}
		lot := sha256.Sum256([]byte(purpose + "/" + id))
		rank[id], drawn = lot[:], append(drawn, id)
	}
	if len(drawn) == 0 {
		return nil, fault.New(fault.Conflict, "no_eligible_arbiter",
			"No arbiter of the registry may rule on this: each is suspended, deleted, involved, related to who is, or took part before.")
	}
	slices.SortFunc(drawn, func(a, b string) int { return bytes.Compare(rank[a], rank[b]) })
	return drawn[:min(n, len(drawn))], nil
}

// related reports whether two agents are one, or one made the other, or one made both.
func (a Agent) related(b Agent) bool {
	return a.ID == b.ID || a.ParentID == b.ID || b.ParentID == a.ID || a.ParentID != "" && a.ParentID == b.ParentID
}

type registryView struct {
	_ struct{} `json:"-" name:"ArbiterRegistry"`

	TenantID string `json:"tenant_id" required:"true"`
	RegistrySettings
	UpdatedAt *time.Time `json:"updated_at" nullable:"true" required:"true" doc:"null: it was never set, and these are the defaults."`
}

func (c *Court) getRegistry(ctx context.Context, who authz.Caller, _ *struct{}) (*registryView, error) {
	found, err := c.registries.List(ctx, who.TenantID, resource.Find{Unique: singleton, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return &registryView{TenantID: who.TenantID, RegistrySettings: c.registries.Blank().RegistrySettings}, nil
	}
	return &registryView{TenantID: who.TenantID, RegistrySettings: found[0].RegistrySettings, UpdatedAt: &found[0].UpdatedAt}, nil
}

type setRegistryIn struct {
	Body RegistrySettings
}

// Done is the answer to what has nothing else to answer.
type Done struct {
	_ struct{} `json:"-" name:"ArbiterDone"`

	OK bool `json:"ok" required:"true"`
}

func (c *Court) setRegistry(ctx context.Context, who authz.Caller, in *setRegistryIn) (*Done, error) {
	answer := &Done{OK: true}
	set := func(tx txn.Tx) error {
		b := in.Body
		b.ArbiterAgentIDs = append([]string{}, b.ArbiterAgentIDs...)
		found, err := c.registries.ListTx(tx, who.TenantID, resource.Find{Unique: singleton, Limit: 1})
		if err != nil {
			return err
		}
		registry := c.registries.Blank()
		if len(found) > 0 {
			registry = found[0]
		}
		if err := c.checkArbiters(tx, who.TenantID, b.ArbiterAgentIDs, registry.ArbiterAgentIDs); err != nil {
			return err
		}
		if len(found) == 0 {
			registry.RegistrySettings = b
			err = c.registries.CreateTx(tx, who, registry)
		} else {
			_, err = c.registries.UpdateTx(tx, who, registry.ID, func(r *Registry) error {
				r.RegistrySettings = b
				return nil
			})
		}
		if err != nil {
			return err
		}
		entry := ledger.Entry{Kind: "arbiter_registry.set", ActorUserID: who.UserID, Details: b}
		if err := c.Ledger.AppendTx(tx, who.TenantID, entry); err != nil {
			return err
		}
		return txn.Answer(tx, answer)
	}
	return answer, c.writer.Write(ctx, set)
}

// checkArbiters refuses arbiters that are named twice, or that the company does not have.
func (c *Court) checkArbiters(tx txn.Tx, tenant string, ids, before []string) error {
	known, err := c.agentsTx(tx, tenant, ids)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return fault.BadFields(fault.Field{Field: fmt.Sprintf("arbiter_agent_ids[%d]", i), Message: "the agent is named before"})
		}
	}
	return resource.CheckReferences("arbiter_agent_ids", "agent", ids, before, func(id string) error {
		if _, ok := known[id]; !ok {
			return fault.NewNotFound("agent")
		}
		return nil
	})
}

// Routes returns the operations on arbiters and cases.
func (c *Court) Routes() []route.Route {
	row := func(method, path, id, summary string, role authz.Role) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1/governance/arbiter" + path, ID: id, Tag: "Governance", Summary: summary,
			Scopes: []authz.Scope{"agents:write"}, Role: role,
		}
		if method == "GET" {
			r.Scopes = []authz.Scope{"agents:read"}
		} else {
			r.Errors = []int{409}
		}
		return r
	}
	appeal := row("POST", "/cases/{caseId}/appeal", "fileArbiterAppeal", "Appeal against a ruling.", authz.Developer)
	appeal.Status = 201
	all := resource.Routes(c.cases)
	for i := range all {
		if all[i].ID == "createArbiterCase" {
			all[i].ID, all[i].Summary = "fileArbiterCase", "File a case against an agent."
			all[i].Errors = append(all[i].Errors, 409)
		}
	}
	return append(all,
		route.Action(row("GET", "/registry", "getArbiterRegistry", "Read the registry of arbiters.", ""), c.getRegistry),
		route.Action(row("PUT", "/registry", "setArbiterRegistry", "Replace the registry of arbiters.", authz.Admin), c.setRegistry),
		route.Action(row("POST", "/cases/{caseId}/ruling", "issueArbiterRuling",
			"Enter the ruling of a case's arbiter, or the vote of a member of an appeal's panel.", authz.Admin), c.rule),
		route.Action(appeal, c.appeal),
	)
}
