// Package design keeps requests for new agents, from the wish to the agent that was made.
package design

import (
	"cmp"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/governance/inbox"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
)

const (
	pending = "pending"
	spawned = "spawned"
)

// Request is a request for a new agent.
type Request struct {
	resource.Meta `json:"-"`

	Title            string          `json:"title" maxLength:"500" immutable:"true" doc:"What is wanted, in a sentence. Default: agent_name."`
	Description      string          `json:"description" maxLength:"50000" doc:"The same at length."`
	AgentName        string          `json:"agent_name" maxLength:"200" doc:"What the agent is to be called."`
	AgentDescription string          `json:"agent_description" maxLength:"50000" doc:"What it is to do."`
	AgentRole        string          `json:"agent_role" maxLength:"200" doc:"What it is for, in a word."`
	Tools            []string        `json:"tools" maxItems:"200" maxLength:"200" doc:"The tools that it needs."`
	ParentAgentID    *string         `json:"parent_agent_id" ref:"agent" maxLength:"36" doc:"The agent that it is to work for; null: none."`
	Rationale        string          `json:"rationale" maxLength:"50000" doc:"Why it is needed."`
	Design           schema.Nullable `json:"design" doc:"How it is to be configured, such as the body of POST /agents; null: that is left open."`
	RequestedBy      string          `json:"requested_by" readOnly:"true" doc:"The member who asked."`
	Status           string          `json:"status" readOnly:"true" enum:"pending,voting,approved,rejected,spawned"`
	ProposalID       *string         `json:"proposal_id" readOnly:"true" doc:"The proposal that decides on it; null: none."`
	ResultAgentID    *string         `json:"result_agent_id" readOnly:"true" doc:"The agent that was made; null until it is."`
}

// Options are what requests need of others.
type Options struct {
	Ledger ledger.Appender
	Inbox  inbox.Sender
	// Agent reports whether a company has an agent. Errors: fault.NotFound.
	Agent func(tx txn.Tx, tenant, id string) error
}

// Requests keeps the requests of all companies.
type Requests struct {
	store *resource.Store[Request]
	agent func(tx txn.Tx, tenant, id string) error
}

// New returns the requests.
func New(deps resource.Deps, o Options) *Requests {
	return &Requests{resource.NewStore(o.kind(), deps), o.Agent}
}

// Store returns what keeps them.
func (r *Requests) Store() *resource.Store[Request] { return r.store }

func (o Options) kind() resource.Kind[Request] {
	return resource.Kind[Request]{
		Name: "design_request", Path: "/api/v1/governance/builder/requests", IDField: "id", Noun: "DesignRequest", Tag: "Governance",
		Keys: []string{"requests"}, PageSize: 50, MaxPageSize: 200,
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
		Omit:    []resource.Op{resource.OpPatch, resource.OpDelete},
		Indexes: []resource.Index[Request]{{
			Name: "status", Doc: "Only requests in this state: pending, voting, approved, rejected or spawned.",
			Of: func(r *Request) string { return r.Status },
		}},
		Filters: []string{"status"},
		Default: func(r *Request) { r.Status, r.Tools = pending, []string{} },
		Label:   func(r *Request) string { return r.Title },
		Events: []resource.EventType{
			{Name: "design_request.created", Doc: "A new agent is asked for.", Actions: []string{resource.Created}},
			{Name: "design_request.updated", Doc: "A request for a new agent moved on; its status says where.", Actions: []string{resource.Updated}},
		},
		Validate: func(r *Request) []fault.Field {
			if strings.TrimSpace(r.Title+r.AgentName) == "" {
				return []fault.Field{{Field: "title", Message: "it is blank, and so is agent_name; one of them is needed"}}
			}
			return nil
		},
		Before: func(e *resource.Edit[Request]) error {
			if e.Action != resource.Created {
				return nil
			}
			e.New.RequestedBy = e.Who.UserID
			if strings.TrimSpace(e.New.Title) == "" {
				e.New.Title = e.New.AgentName
			}
			if id := e.New.ParentAgentID; id != nil {
				return o.Agent(e.Tx, e.Who.TenantID, *id)
			}
			return nil
		},
		After: o.record,
	}
}

func (o Options) record(e *resource.Edit[Request]) error {
	r, entry := e.New, ledger.Entry{Kind: "design_request.moved", ActorUserID: e.Who.UserID}
	switch e.Action {
	case resource.Deleted:
		r, entry.Kind = e.Old, "design_request.deleted"
	case resource.Created:
		entry.Kind = "design_request.created"
		if err := o.Inbox.SendTx(e.Tx, r.TenantID, inbox.Item{
			Type: "domain.governance.design_requested", Title: "A new agent is asked for: " + r.Title,
			Message: cmp.Or(r.Description, r.AgentDescription, r.Rationale),
			Path:    "/api/v1/governance/builder/requests/" + r.ID, Key: "design_request/" + r.ID,
		}); err != nil {
			return err
		}
	}
	if r.ResultAgentID != nil {
		entry.SubjectAgentID = *r.ResultAgentID
	}
	entry.Details = map[string]any{"request_id": r.ID, "title": r.Title, "status": r.Status, "proposal_id": r.ProposalID}
	return o.Ledger.AppendTx(e.Tx, e.Who.TenantID, entry)
}

type statusIn struct {
	_ struct{} `json:"-" name:"DesignRequestMove"`

	Status         string  `json:"status" required:"true" enum:"pending,voting,approved,rejected,spawned" doc:"Any of these, in any order; spawned needs spawned_agent_id once."`
	ProposalID     *string `json:"proposal_id" maxLength:"36" doc:"The proposal that decides; what is stored stays where it is left out."`
	SpawnedAgentID *string `json:"spawned_agent_id" ref:"agent" maxLength:"36" doc:"The agent of the company that was made; what is stored stays where it is left out."`
}

func (r *Requests) setStatus(e *resource.Edit[Request], in *statusIn) error {
	if in.SpawnedAgentID != nil {
		if err := r.agent(e.Tx, e.Who.TenantID, *in.SpawnedAgentID); err != nil {
			return err
		}
		e.New.ResultAgentID = in.SpawnedAgentID
	}
	if in.Status == spawned && e.New.ResultAgentID == nil {
		return fault.BadFields(fault.Field{Field: "spawned_agent_id", Message: "name the agent that was made"})
	}
	if in.ProposalID != nil {
		e.New.ProposalID = in.ProposalID
	}
	e.New.Status = in.Status
	return nil
}

// Routes returns the operations on requests.
func (r *Requests) Routes() []route.Route {
	all := append(resource.Routes(r.store), resource.Act(r.store, route.Row{
		Method: "PUT", ID: "updateDesignRequestStatus", Summary: "Set the state of a request for a new agent.",
		Scopes: []authz.Scope{"agents:write"}, Role: authz.Admin,
	}, "/status", "status", r.setStatus))
	for i := range all {
		all[i].ID = strings.Replace(all[i].ID, "DesignRequest", "BuilderRequest", 1)
	}
	return all
}
