// Package court has disputes about what agents did: cases that members file, arbiters
// who are drawn by lot from a registry, rulings with penalties, and appeals.
package court

import (
	"cmp"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/governance/inbox"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
)

// The states of a case.
const (
	Filed    = "filed"     // no arbiter is assigned: the company has no registry
	InReview = "in_review" // the assigned arbiter is to rule
	Ruled    = "ruled"
	Appealed = "appealed" // a panel is to rule
	Closed   = "closed"   // no appeal is left, or an ambassador's veto ended it
)

// Case is a complaint about an agent.
type Case struct {
	resource.Meta `json:"-"`

	FiledBy        string        `json:"filed_by" maxLength:"200" immutable:"true" doc:"Who complains: an agent's id, or a name. Default: the caller."`
	AgainstAgentID string        `json:"against_agent_id" required:"true" ref:"agent" maxLength:"36" immutable:"true" doc:"The agent that it is about."`
	Reason         string        `json:"reason" maxLength:"4000" doc:"What the agent did, in a sentence."`
	Description    string        `json:"description" maxLength:"50000" doc:"The same at length."`
	RuleIDs        []string      `json:"rule_ids" maxItems:"50" maxLength:"100" doc:"Rules of the constitution that it broke, as far as they are known."`
	Evidence       schema.Object `json:"evidence" doc:"Anything that supports the complaint, such as ids of runs; a free object."`

	SubmittedBy string     `json:"submitted_by" readOnly:"true" doc:"The member who filed it."`
	Status      string     `json:"status" readOnly:"true" enum:"filed,in_review,ruled,appealed,closed"`
	ArbiterID   *string    `json:"assigned_arbiter_id" readOnly:"true" doc:"The agent that is to rule; null: the company has no arbiters, and an admin rules."`
	FiledAt     time.Time  `json:"filed_at" readOnly:"true"`
	Deadline    *time.Time `json:"deadline" readOnly:"true" doc:"When the ruling is due; null: at no certain time."`
	Ruling      *Ruling    `json:"ruling" readOnly:"true" doc:"The ruling that holds; null until there is one."`
	Appeals     []Appeal   `json:"appeals" readOnly:"true" doc:"Oldest first."`
}

// Ruling is the decision of a case.
type Ruling struct {
	_ struct{} `json:"-" name:"ArbiterRuling"`

	CaseID    string    `json:"case_id" required:"true"`
	ArbiterID string    `json:"arbiter_id" required:"true" doc:"The arbiter, or the admin where none was assigned."`
	Decision  string    `json:"decision" required:"true" enum:"upheld,dismissed"`
	Reason    string    `json:"reason" required:"true"`
	Penalties []Penalty `json:"penalties" required:"true" doc:"What was carried out."`
	RuledBy   string    `json:"ruled_by" required:"true" doc:"The admin who entered the ruling."`
	RuledAt   time.Time `json:"ruled_at" required:"true"`
}

// The decisions on a complaint.
const (
	Upheld    = "upheld"
	Dismissed = "dismissed"
)

// Options are what cases need of others.
type Options struct {
	Clock     clock.Clock
	Ledger    ledger.Appender
	Inbox     inbox.Sender
	Queue     work.Queue // nil: nothing happens when a deadline passes
	Agents    Agents
	Penalties map[string]Executor // by type, but for warnings; a type without one is refused
}

// Agents is the port to the agents of a company.
type Agents interface {
	// GetTx returns what a lot depends on, and locks the agent. Errors: fault.NotFound.
	GetTx(tx txn.Tx, tenant, id string) (Agent, error)
}

// Agent is an agent as far as a lot depends on it.
type Agent struct {
	ID       string
	ParentID string // the agent that made it; "": none
	Active   bool
}

// Court keeps the cases and the arbiters of all companies.
type Court struct {
	Options
	cases      *resource.Store[Case]
	registries *resource.Store[Registry]
	writer     txn.Writer
}

// New returns the court.
func New(deps resource.Deps, o Options) *Court {
	c := &Court{Options: o, writer: deps.Writer}
	c.cases = resource.NewStore(c.caseKind(), deps)
	c.registries = resource.NewStore(registryKind(), deps)
	return c
}

// Cases returns what keeps the cases.
func (c *Court) Cases() *resource.Store[Case] { return c.cases }

func (c *Court) caseKind() resource.Kind[Case] {
	return resource.Kind[Case]{
		Name: "case", Noun: "ArbiterCase", Path: "/api/v1/governance/arbiter/cases", IDField: "id", Tag: "Governance",
		Keys: []string{"cases"}, PageSize: 50, MaxPageSize: 200,
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
		Omit:    []resource.Op{resource.OpPatch, resource.OpDelete},
		Indexes: []resource.Index[Case]{
			{
				Name: "status", Doc: "Only cases in this state: filed, in_review, ruled, appealed or closed.",
				Of: func(c *Case) string { return c.Status },
			},
			{Name: "against_agent_id", Doc: "Only cases about this agent.", Of: func(c *Case) string { return c.AgainstAgentID }},
		},
		Filters: []string{"status", "against_agent_id"},
		Default: func(c *Case) { c.Status, c.RuleIDs, c.Appeals = Filed, []string{}, []Appeal{} },
		Label:   func(c *Case) string { return c.Reason },
		Events: []resource.EventType{
			{Name: "case.created", Doc: "A case was filed and waits for a ruling.", Actions: []string{resource.Created}},
			{Name: "case.updated", Doc: "A case was ruled on, appealed or closed; its status says which.", Actions: []string{resource.Updated}},
		},
		Before: c.file,
		After: func(e *resource.Edit[Case]) error {
			if e.Action != resource.Created {
				return nil
			}
			if err := c.record(e.Tx, e.Who, "case.filed", e.New, map[string]any{
				"filed_by": e.New.FiledBy, "rule_ids": e.New.RuleIDs, "assigned_arbiter_id": e.New.ArbiterID,
			}); err != nil {
				return err
			}
			if due := e.New.Deadline; due != nil {
				if err := c.schedule(e.Tx, e.New, "", *due); err != nil {
					return err
				}
			}
			return c.send(e.Tx, e.New, "case_filed", "A case waits for a ruling", e.New.Reason, "")
		},
	}
}

// file completes a new case, and draws its arbiter.
func (c *Court) file(e *resource.Edit[Case]) error {
	if e.Action != resource.Created {
		return nil
	}
	n := e.New
	n.FiledBy = cmp.Or(strings.TrimSpace(n.FiledBy), e.Who.UserID)
	involved := []string{n.AgainstAgentID}
	if n.FiledBy != e.Who.UserID && ident.Valid(n.FiledBy) {
		involved = append(involved, n.FiledBy)
	}
	n.SubmittedBy, n.FiledAt = e.Who.UserID, c.Clock.Now()
	registry, err := c.registryTx(e.Tx, e.Who.TenantID)
	if err != nil {
		return err
	}
	known, err := c.agentsTx(e.Tx, e.Who.TenantID, append(involved, registry.ArbiterAgentIDs...))
	if err != nil {
		return err
	}
	for _, id := range involved {
		if _, ok := known[id]; !ok {
			return fault.NewNotFound("agent")
		}
	}
	if len(registry.ArbiterAgentIDs) == 0 {
		return nil
	}
	drawn, err := registry.draw(n.ID, 1, known, involved, nil)
	if err != nil {
		return err
	}
	due := n.FiledAt.Add(registry.deadline())
	n.ArbiterID, n.Deadline, n.Status = &drawn[0], &due, InReview
	return nil
}

// record writes an entry about a case to the ledger.
func (c *Court) record(tx txn.Tx, who authz.Caller, kind string, on *Case, details map[string]any) error {
	details["case_id"] = on.ID
	return c.Ledger.AppendTx(tx, who.TenantID, ledger.Entry{
		Kind: kind, ActorUserID: who.UserID, SubjectAgentID: on.AgainstAgentID, Details: details,
	})
}

// send tells the admins of a company what a case waits for. occasion tells several
// waits of one kind apart.
func (c *Court) send(tx txn.Tx, on *Case, what, title, message, occasion string) error {
	return c.Inbox.SendTx(tx, on.TenantID, inbox.Item{
		Type: "domain.governance." + what, Title: title, Message: message, Path: "/api/v1/governance/arbiter/cases/" + on.ID,
		AgentID: on.AgainstAgentID, Key: what + "/" + on.ID + "/" + occasion,
	})
}
