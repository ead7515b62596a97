package ambassador

import (
	"context"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/governance/inbox"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
)

// Request is what an agent wants of the ambassadors.
type Request struct {
	resource.Meta `json:"-"`

	FromAgentID string     `json:"from_agent_id" required:"true" ref:"agent" maxLength:"36" immutable:"true" doc:"The agent that asks."`
	Type        string     `json:"type" required:"true" enum:"clarification,approval,escalation,report" doc:"What it wants."`
	Subject     string     `json:"subject" required:"true" minLength:"1" maxLength:"500" doc:"What it is about, in a sentence."`
	Body        string     `json:"body" required:"true" maxLength:"50000" doc:"The request at length."`
	Status      string     `json:"status" readOnly:"true" enum:"pending,acknowledged,resolved"`
	Response    *string    `json:"response" readOnly:"true" doc:"The answer; null until there is one."`
	ResolvedBy  *string    `json:"resolved_by" readOnly:"true" doc:"The member who answered; null until then."`
	ResolvedAt  *time.Time `json:"resolved_at" readOnly:"true" doc:"When it was answered; null until then."`
}

const resolved = "resolved"

func (a *Ambassadors) requestKind() resource.Kind[Request] {
	return resource.Kind[Request]{
		Name: "ambassador_request", Noun: "AmbassadorRequest", Path: "/api/v1/governance/ambassador/requests", IDField: "id",
		Param: "requestId", Tag: "Governance", Keys: []string{"requests"}, PageSize: 50, MaxPageSize: 200,
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
		Omit:    []resource.Op{resource.OpPatch, resource.OpDelete},
		Indexes: []resource.Index[Request]{{
			Name: "status", Doc: "Only requests in this state: pending, acknowledged or resolved.", Of: func(r *Request) string { return r.Status },
		}},
		Filters: []string{"status"},
		Default: func(r *Request) { r.Status = "pending" },
		Label:   func(r *Request) string { return r.Subject },
		Events: []resource.EventType{
			{Name: "ambassador_request.created", Doc: "An agent asks the ambassadors for something.", Actions: []string{resource.Created}},
			{Name: "ambassador_request.updated", Doc: "A request of an agent was acknowledged or resolved.", Actions: []string{resource.Updated}},
		},
		Validate: func(r *Request) []fault.Field {
			if strings.TrimSpace(r.Subject) == "" {
				return []fault.Field{{Field: "subject", Message: "it is blank"}}
			}
			return nil
		},
		Before: func(e *resource.Edit[Request]) error {
			if e.Action != resource.Created {
				return nil
			}
			return a.Agent(e.Tx, e.Who.TenantID, e.New.FromAgentID)
		},
		After: a.recordRequest,
	}
}

func (a *Ambassadors) recordRequest(e *resource.Edit[Request]) error {
	r, entry := e.New, ledger.Entry{Kind: "ambassador_request.resolved", ActorUserID: e.Who.UserID}
	switch e.Action {
	case resource.Deleted:
		r, entry.Kind = e.Old, "ambassador_request.deleted"
	case resource.Created:
		entry.Kind, entry.ActorAgentID = "ambassador_request.created", r.FromAgentID
		if err := a.Inbox.SendTx(e.Tx, r.TenantID, inbox.Item{
			Type: "domain.governance.request_created", Title: "An agent asks: " + r.Subject, Message: r.Body,
			Path: "/api/v1/governance/ambassador/requests/" + r.ID, AgentID: r.FromAgentID, Key: "ambassador_request/" + r.ID,
		}); err != nil {
			return err
		}
	}
	entry.SubjectAgentID = r.FromAgentID
	entry.Details = map[string]any{"request_id": r.ID, "type": r.Type, "subject": r.Subject, "response": r.Response}
	return a.Ledger.AppendTx(e.Tx, e.Who.TenantID, entry)
}

type resolveIn struct {
	_ struct{} `json:"-" name:"AmbassadorRequestResolve"`

	Response string `json:"response" required:"true" minLength:"1" maxLength:"50000" doc:"The answer."`
}

func (a *Ambassadors) resolve(e *resource.Edit[Request], in *resolveIn) error {
	now := a.Clock.Now()
	e.New.Status, e.New.Response, e.New.ResolvedBy, e.New.ResolvedAt = resolved, &in.Response, &e.Who.UserID, &now
	return nil
}

// Veto is an ambassador's no.
type Veto struct {
	resource.Meta `json:"-"`

	IssuedBy   string    `json:"issued_by" doc:"The ambassador."`
	TargetType string    `json:"target_type" enum:"proposal,action,agent,case"`
	TargetID   string    `json:"target_id"`
	Reason     string    `json:"reason"`
	IssuedAt   time.Time `json:"issued_at"`
}

func vetoKind() resource.Kind[Veto] {
	return resource.Kind[Veto]{
		Name: "veto", Names: "vetoes", Path: "/api/v1/governance/ambassador/vetoes", IDField: "id", Tag: "Governance", Keys: []string{"vetoes"},
		PageSize: 50, MaxPageSize: 50,
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Omit:    []resource.Op{resource.OpCreate, resource.OpGet, resource.OpPatch, resource.OpDelete},
		Events: []resource.EventType{
			{Name: "veto.created", Doc: "An ambassador vetoed something.", Actions: []string{resource.Created}},
		},
	}
}

// tell sends a veto to the people of the company.
func (a *Ambassadors) tell(tx txn.Tx, v *Veto) error {
	item := inbox.Item{
		Type: "domain.governance.veto_issued", Title: "An ambassador vetoed: " + v.TargetType, Message: v.Reason,
		Path: "/api/v1/governance/ambassador/vetoes", Key: "veto/" + v.ID,
	}
	if v.TargetType == "agent" {
		item.AgentID = v.TargetID
	}
	return a.Inbox.SendTx(tx, v.TenantID, item)
}

// Pending returns up to limit requests that nobody has taken up, the oldest first.
func (a *Ambassadors) Pending(ctx context.Context, tenant string, limit int) ([]*Request, error) {
	return a.requests.List(ctx, tenant, resource.Find{Where: map[string]string{"status": "pending"}, Asc: true, Limit: limit})
}
