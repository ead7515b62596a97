package app

import (
	"context"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/ptr"
	"agentd/internal/delivery/waiting"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
)

// failedFor is how long a failed run waits in the inbox.
const failedFor = 24 * time.Hour

// listFunc is the List of a waiting.Source.
type listFunc = func(ctx context.Context, tenant, agentID string, limit int) ([]waiting.Item, error)

// newWaiting is the inbox of all that waits for a person.
func newWaiting(p *platform, registry *tool.Registry, x *execution, d *decisions) *waiting.Service {
	access := func(scope authz.Scope, role authz.Role) resource.Access {
		return resource.Access{Scopes: []authz.Scope{scope}, Role: role}
	}
	runs := waitingRuns{x.runs, registry, p}
	of := func(list listFunc, scope, decide authz.Scope, kinds ...string) waiting.Source {
		return waiting.Source{Kinds: kinds, Readers: access(scope, authz.Viewer), Deciders: access(decide, authz.Developer), List: list}
	}
	return &waiting.Service{
		Clock: p.clock, Cursors: p.cursors, Decider: runs,
		Sources: []waiting.Source{
			of(runs.approvals, "runs:read", "runs:create", "approval"),
			of(runs.paused, "runs:read", "runs:create", "input", "paused"),
			of(runs.authorizations, "runs:read", "runs:create", "authorization"),
			of(runs.failed, "runs:read", "runs:create", "failed"),
			of(ballots(d), "agents:read", "agents:write", "ballot"),
			of(requests(d, x.runs.Names), "agents:read", "agents:write", "request"),
		},
	}
}

// waitingRuns are runs and approvals that wait.
type waitingRuns struct {
	runs     *run.Service
	registry *tool.Registry
	platform *platform
}

// name returns what an agent is called; "" for one that was deleted.
func (w waitingRuns) name(ctx context.Context, tenant, agentID string, err *error) string {
	name, failed := w.runs.Names.AgentName(ctx, tenant, agentID)
	if failed != nil && !fault.Is(failed, fault.NotFound) {
		*err = failed
	}
	return name
}

func (w waitingRuns) approvals(ctx context.Context, tenant, agentID string, limit int) (items []waiting.Item, err error) {
	found, err := w.runs.Runs.ListApprovals(ctx, tenant, run.ApprovalFilter{Status: run.ApprovalPending, AgentID: agentID},
		page.Window{Limit: limit, Ascending: true})
	if err != nil {
		return nil, err
	}
	for i := range found {
		a := &found[i]
		item := waiting.Item{
			ID: a.ApprovalID, Kind: "approval", RunID: a.RunID, AgentID: a.AgentID, SessionID: ptr.Value(a.SessionID),
			AgentName: w.name(ctx, tenant, a.AgentID, &err), Status: string(a.Status), CreatedAt: a.RequestedAt, ExpiresAt: &a.ExpiresAt,
			Summary: "May the tool " + a.ToolName + " be called?", Decisions: []string{"approve", "reject"},
			Tools: []waiting.Tool{{Name: a.ToolName, Count: 1, Description: w.describe(a.ToolName), Arguments: a.Arguments}},
			Path:  "/api/v1/approvals/" + a.ApprovalID,
		}
		items = append(items, item)
	}
	return items, err
}

// describe returns what a built-in tool does; "" for others.
func (w waitingRuns) describe(name string) string {
	for _, t := range w.registry.Tools() {
		if t.Name == name {
			return t.Description
		}
	}
	return ""
}

func (w waitingRuns) list(ctx context.Context, tenant, agentID string, limit int, oldest bool, statuses ...run.Status) ([]run.Run, error) {
	return w.runs.Runs.ListSummaries(ctx, tenant, run.Filter{Status: statuses, AgentID: agentID}, page.Window{Limit: limit, Ascending: oldest})
}

// item returns what all items of runs have.
func (w waitingRuns) item(ctx context.Context, r *run.Run, kind string, err *error) waiting.Item {
	since := r.CreatedAt
	if r.StartedAt != nil {
		since = *r.StartedAt
	}
	return waiting.Item{
		ID: r.RunID, Kind: kind, RunID: r.RunID, AgentID: r.AgentID, AgentName: w.name(ctx, r.TenantID, r.AgentID, err),
		SessionID: ptr.Value(r.SessionID), Status: string(r.Status), CreatedAt: since, Path: "/api/v1/runs/" + r.RunID,
	}
}

func (w waitingRuns) paused(ctx context.Context, tenant, agentID string, limit int) (items []waiting.Item, err error) {
	found, err := w.list(ctx, tenant, agentID, limit, true, run.Paused)
	if err != nil {
		return nil, err
	}
	for i := range found {
		r := &found[i]
		item := w.item(ctx, r, "paused", &err)
		item.Summary, item.Decisions = "A run was paused. Is it to go on?", []string{"resume", "cancel"}
		if ask := r.PendingInput; ask != nil {
			item.Kind, item.CreatedAt, item.Summary, item.Decisions = "input", ask.RequestedAt, ask.Question, []string{"answer", "cancel"}
		}
		items = append(items, item)
	}
	return items, err
}

func (w waitingRuns) authorizations(ctx context.Context, tenant, agentID string, limit int) (items []waiting.Item, err error) {
	found, err := w.list(ctx, tenant, agentID, limit, true, run.AuthRequired)
	if err != nil {
		return nil, err
	}
	for i := range found {
		item := w.item(ctx, &found[i], "authorization", &err)
		item.Summary = "A run waits until a person authorizes what it uses."
		if auth := found[i].PendingAuth; auth != nil {
			item.Summary, item.Detail = "A run waits until a person authorizes "+auth.Name+".", auth.AuthorizationURL
		}
		items = append(items, item)
	}
	return items, err
}

func (w waitingRuns) failed(ctx context.Context, tenant, agentID string, limit int) (items []waiting.Item, err error) {
	found, err := w.list(ctx, tenant, agentID, limit, false, run.Failed, run.TimedOut)
	if err != nil {
		return nil, err
	}
	since := w.platform.clock.Now().Add(-failedFor)
	for i := range found {
		r := &found[i]
		if r.CompletedAt == nil || r.CompletedAt.Before(since) || r.ContinuedByRunID != nil {
			continue
		}
		item := w.item(ctx, r, "failed", &err)
		item.Summary, item.Detail, item.ErrorCode = "A run failed. Is it to be continued?", ptr.Value(r.Error), r.ErrorCode
		item.CreatedAt, item.Decisions = *r.CompletedAt, []string{"continue"}
		items = append(items, item)
	}
	return items, err
}

// Decide implements waiting.Decider: each decision is what its own operation does.
func (w waitingRuns) Decide(ctx context.Context, who authz.Caller, d waiting.Decision) error {
	if !ident.Valid(d.ID) {
		return fault.NewNotFound(d.Kind)
	}
	switch d.Kind + " " + d.Decision {
	case "approval approve", "approval reject":
		return w.decideApproval(ctx, who, d)
	case "input answer":
		if strings.TrimSpace(d.Response) == "" {
			return fault.BadFields(fault.Field{Field: "response", Message: "the answer is empty"})
		}
		return w.runs.Respond(ctx, who.TenantID, d.ID, d.Response)
	case "paused resume":
		return w.runs.Resume(ctx, who.TenantID, d.ID, d.Response)
	case "input cancel", "paused cancel":
		_, err := w.runs.Cancel(ctx, who.TenantID, d.ID)
		return err
	case "failed continue":
		_, err := w.runs.Continue(ctx, who, d.ID, "", d.Response)
		return err
	}
	return fault.BadFields(fault.Field{Field: "decision", Message: "it is none for the kind " + d.Kind + "; see decisions of the item"})
}

func (w waitingRuns) decideApproval(ctx context.Context, who authz.Caller, d waiting.Decision) error {
	a, err := w.runs.Runs.GetApproval(ctx, who.TenantID, d.ID)
	if err != nil {
		return err
	}
	if d.Decision == "approve" {
		_, err = w.runs.Approve(ctx, who, a.RunID, run.ApproveRequest{ApprovalID: d.ID, Response: d.Response, Arguments: d.Arguments})
		return err
	}
	_, err = w.runs.Reject(ctx, who, a.RunID, run.RejectRequest{ApprovalID: d.ID, Reason: d.Reason, Continue: d.Continue})
	return err
}

// ballots lists open votes.
func ballots(d *decisions) listFunc {
	return func(ctx context.Context, tenant, agentID string, limit int) (items []waiting.Item, err error) {
		found, err := d.votes.Open(ctx, tenant, limit)
		for _, p := range found {
			if by := ptr.Value(p.ProposerAgentID); agentID == "" || by == agentID {
				items = append(items, waiting.Item{
					ID: p.ID, Kind: "ballot", AgentID: by, Status: p.Status, CreatedAt: p.OpensAt, ExpiresAt: &p.ClosesAt,
					Summary: p.Title, Detail: p.Description, Path: "/api/v1/governance/voting/proposals/" + p.ID,
				})
			}
		}
		return items, err
	}
}

// requests lists what agents ask the ambassadors for.
func requests(d *decisions, names run.Names) listFunc {
	return func(ctx context.Context, tenant, agentID string, limit int) (items []waiting.Item, err error) {
		found, err := d.envoys.Pending(ctx, tenant, limit)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if agentID != "" && r.FromAgentID != agentID {
				continue
			}
			name, err := names.AgentName(ctx, tenant, r.FromAgentID)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return nil, err
			}
			items = append(items, waiting.Item{
				ID: r.ID, Kind: "request", AgentID: r.FromAgentID, AgentName: name, Status: r.Status, CreatedAt: r.CreatedAt,
				Summary: r.Subject, Detail: r.Body, Path: "/api/v1/governance/ambassador/requests/" + r.ID,
			})
		}
		return items, nil
	}
}
