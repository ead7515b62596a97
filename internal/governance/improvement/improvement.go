// Package improvement keeps proposals to change an agent after runs of it went wrong,
// and the review of these proposals.
package improvement

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/governance/inbox"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
)

// maxProposals bounds the proposals about one agent.
const maxProposals = 200

// Proposal is a proposal as it is stored.
type Proposal struct {
	resource.Meta `json:"-"`

	AgentID     string `json:"agent_id"`
	Version     int64  `json:"version"`
	Content     `json:"content"`
	Status      string  `json:"status"`
	SubmittedBy string  `json:"submitted_by"`
	VoteID      *string `json:"vote_proposal_id"`

	Test    *Test   `json:"test"`            // nil: it was not tested yet
	Applied *string `json:"applied_version"` // of the agent; nil: it was not applied
}

// Content is what the author of a proposal says.
type Content struct {
	_ struct{} `json:"-" name:"ImprovementProposalCreate"`

	Type            string        `json:"type" required:"true" enum:"prompt_change,tool_addition,tool_removal,model_change,parameter_tuning,skill_addition" doc:"What kind of change it is."`
	Title           string        `json:"title,omitzero" maxLength:"500" doc:"What is to change, in a sentence."`
	Description     string        `json:"description,omitzero" maxLength:"50000" doc:"The same at length."`
	Rationale       string        `json:"rationale,omitzero" maxLength:"50000" doc:"Why it is needed."`
	FailedRunIDs    []string      `json:"failed_run_ids,omitzero" ref:"run" maxItems:"10" maxLength:"36" doc:"Runs of the agent that show the problem."`
	Diff            schema.Object `json:"diff,omitzero" doc:"The change: a merge patch as PATCH /agents/{agentId} takes it, and checked like one. Default: {}, which changes nothing."`
	BaselineSuccess *float64      `json:"baseline_success_rate,omitzero" minimum:"0" maximum:"1" doc:"The share of runs that succeed now."`
}

// Options are what proposals need of others.
type Options struct {
	Ledger ledger.Appender
	Inbox  inbox.Sender
	// KnownAgent reports whether a company has an agent. Errors: fault.NotFound.
	KnownAgent func(ctx context.Context, tenant, id string) error
	// LockAgent is KnownAgent in a transaction, until whose end it locks the agent.
	LockAgent func(tx txn.Tx, tenant, id string) error
	// CheckPatch refuses a merge patch that the agent would not take now.
	CheckPatch func(ctx context.Context, tenant, id string, patch jsontext.Value) error
	// AgentOfRun returns the agent of a run. Errors: fault.NotFound.
	AgentOfRun func(ctx context.Context, tenant, run string) (string, error)
	// Vote reports whether a company has a proposal that is voted on. Errors: fault.NotFound.
	Vote func(ctx context.Context, tenant, id string) error
	// PassedTx refuses a proposal whose vote was not passed. Errors: fault.Conflict.
	PassedTx func(tx txn.Tx, tenant, id string) error
	// PatchTx changes an agent by a merge patch, and returns its new version.
	PatchTx func(tx txn.Tx, who authz.Caller, id string, patch jsontext.Value) (version string, err error)
	Sandbox Sandbox
	Queue   work.Queue
	Clock   clock.Clock
}

// Improvements keeps the proposals of all companies.
type Improvements struct {
	Options
	store  *resource.Store[Proposal]
	writer txn.Writer
}

// New returns the proposals.
func New(deps resource.Deps, o Options) *Improvements {
	return &Improvements{o, resource.NewStore(resource.Kind[Proposal]{
		Name: "improvement_proposal", Path: "/api/v1/governance/improvement", IDField: "id", Tag: "Governance",
		Indexes: []resource.Index[Proposal]{{Name: "agent", Of: func(p *Proposal) string { return p.AgentID }}},
		Unique:  resource.Index[Proposal]{Name: "version", Of: func(p *Proposal) string { return key(p.AgentID, p.Version) }},
		Label:   func(p *Proposal) string { return p.Title },
	}, deps), deps.Writer}
}

func (p *Proposal) path() string {
	return "/api/v1/governance/improvement/" + key(p.AgentID, p.Version)
}

func key(agent string, version int64) string { return agent + "/" + strconv.FormatInt(version, 10) }

type view struct {
	_ struct{} `json:"-" name:"ImprovementProposal"`

	ID              string        `json:"id" required:"true"`
	TenantID        string        `json:"tenant_id" required:"true"`
	AgentID         string        `json:"agent_id" required:"true"`
	Version         string        `json:"version" required:"true" doc:"Counts the proposals about the agent, from 1."`
	Type            string        `json:"type" required:"true"`
	Title           string        `json:"title" required:"true"`
	Description     string        `json:"description" required:"true"`
	Rationale       string        `json:"rationale" required:"true"`
	FailedRunIDs    []string      `json:"failed_run_ids" required:"true"`
	Diff            schema.Object `json:"diff" required:"true"`
	BaselineSuccess *float64      `json:"baseline_success_rate" required:"true" nullable:"true" doc:"null: none was given."`
	Status          string        `json:"status" required:"true" enum:"proposed,arbiter_review,voting,sandbox_testing,approved,applied,rejected"`
	SubmittedBy     string        `json:"submitted_by" required:"true" doc:"The member who made it."`
	VoteID          *string       `json:"vote_proposal_id" required:"true" nullable:"true" doc:"The vote that decides on it; null: none."`
	SandboxRate     *float64      `json:"sandbox_success_rate" required:"true" nullable:"true" doc:"The share of the sandbox runs that completed; null: it was not tested to the end."`
	SandboxRuns     []TestRun     `json:"sandbox_runs" required:"true" doc:"The runs of its sandbox test, in the order of failed_run_ids; empty: it was not tested yet."`
	AppliedVersion  *string       `json:"applied_version" required:"true" nullable:"true" doc:"The version of the agent that it made; null: it was not applied."`
	CreatedAt       time.Time     `json:"created_at" required:"true"`
	UpdatedAt       time.Time     `json:"updated_at" required:"true"`
}

func viewOf(p *Proposal) *view {
	v := &view{
		ID: p.ID, TenantID: p.TenantID, AgentID: p.AgentID, Version: strconv.FormatInt(p.Version, 10), Type: p.Type, Title: p.Title,
		Description: p.Description, Rationale: p.Rationale, FailedRunIDs: p.FailedRunIDs, Diff: p.Diff, BaselineSuccess: p.BaselineSuccess,
		Status: p.Status, SubmittedBy: p.SubmittedBy, VoteID: p.VoteID, AppliedVersion: p.Applied, SandboxRuns: []TestRun{},
		CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
	if p.Test != nil {
		v.SandboxRate, v.SandboxRuns = p.Test.SuccessRate, p.Test.Runs
	}
	return v
}

type listIn struct {
	AgentID string `path:"agentId"`
}

func about(agent string) resource.Find {
	return resource.Find{Where: map[string]string{"agent": agent}, Limit: maxProposals}
}

func (m *Improvements) list(ctx context.Context, who authz.Caller, in *listIn) ([]*view, error) {
	if err := m.KnownAgent(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	found, err := m.store.List(ctx, who.TenantID, about(in.AgentID))
	slices.SortFunc(found, func(a, b *Proposal) int { return cmp.Compare(b.Version, a.Version) })
	all := make([]*view, len(found))
	for i, p := range found {
		all[i] = viewOf(p)
	}
	return all, err
}

type oneIn struct {
	AgentID string `path:"agentId"`
	Version int64  `path:"version" minimum:"1"`
}

func one(found []*Proposal, err error) (*Proposal, error) {
	if err == nil && len(found) == 0 {
		err = fault.NewNotFound("improvement proposal")
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

func (m *Improvements) get(ctx context.Context, who authz.Caller, in *oneIn) (*view, error) {
	if err := m.KnownAgent(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	found, err := one(m.store.List(ctx, who.TenantID, resource.Find{Unique: key(in.AgentID, in.Version), Limit: 1}))
	if err != nil {
		return nil, err
	}
	return viewOf(found), nil
}

type createIn struct {
	AgentID string `path:"agentId"`
	Body    Content
}

func (m *Improvements) create(ctx context.Context, who authz.Caller, in *createIn) (*view, error) {
	if err := m.check(ctx, who.TenantID, in); err != nil {
		return nil, err
	}
	var answer *view
	err := m.writer.Write(ctx, func(tx txn.Tx) error {
		// The lock makes the proposals about one agent wait for each other, so that each
		// sees the version before it.
		if err := m.LockAgent(tx, who.TenantID, in.AgentID); err != nil {
			return err
		}
		all, err := m.store.ListTx(tx, who.TenantID, about(in.AgentID))
		if err != nil {
			return err
		}
		if len(all) >= maxProposals {
			return fault.New(fault.Conflict, "COUNT_LIMIT_REACHED", "An agent has at most %d improvement proposals.", maxProposals)
		}
		p := m.store.Blank()
		p.AgentID, p.Content, p.Version = in.AgentID, in.Body, int64(len(all))+1 // none is ever deleted
		p.Status, p.SubmittedBy = proposed, who.UserID
		if err := m.store.CreateTx(tx, who, p); err != nil {
			return err
		}
		if err := m.record(tx, who, "improvement.proposed", p); err != nil {
			return err
		}
		err = m.Inbox.SendTx(tx, who.TenantID, inbox.Item{
			Type: "domain.governance.improvement_proposed", Title: "An improvement of an agent is proposed: " + cmp.Or(p.Title, p.Type),
			Message: cmp.Or(p.Description, p.Rationale), Path: p.path(), AgentID: p.AgentID, Key: "improvement/" + p.ID,
		})
		if err != nil {
			return err
		}
		answer = viewOf(p)
		return txn.Answer(tx, answer)
	})
	return answer, err
}

// check completes a new proposal, and refuses one that does not fit its agent.
func (m *Improvements) check(ctx context.Context, tenant string, in *createIn) error {
	if err := m.KnownAgent(ctx, tenant, in.AgentID); err != nil {
		return err
	}
	b := &in.Body
	if len(b.Diff) == 0 {
		b.Diff = schema.Object("{}")
	}
	b.FailedRunIDs = append([]string{}, b.FailedRunIDs...)
	err := resource.CheckReferences("failed_run_ids", "run of the agent", b.FailedRunIDs, nil, func(id string) error {
		agent, err := m.AgentOfRun(ctx, tenant, id)
		if err == nil && agent != in.AgentID {
			err = fault.NewNotFound("run")
		}
		return err
	})
	if err != nil {
		return err
	}
	err = m.CheckPatch(ctx, tenant, in.AgentID, jsontext.Value(b.Diff))
	if f := fault.From(err); err != nil && f.Kind == fault.Invalid {
		wrong := make([]fault.Field, len(f.Fields))
		for i := range f.Fields {
			wrong[i] = f.Fields[i].Under("diff")
		}
		return fault.BadFields(wrong...)
	}
	return err
}

func (m *Improvements) record(tx txn.Tx, who authz.Caller, kind string, p *Proposal) error {
	return m.Ledger.AppendTx(tx, who.TenantID, ledger.Entry{
		Kind: kind, ActorUserID: who.UserID, SubjectAgentID: p.AgentID,
		Details: map[string]any{
			"version": p.Version, "type": p.Type, "title": p.Title, "status": p.Status, "diff": p.Diff, "vote_proposal_id": p.VoteID,
			"test": p.Test, "applied_version": p.Applied,
		},
	})
}

// Routes returns the operations on proposals.
func (m *Improvements) Routes() []route.Route {
	row := func(method, path, id, summary string, role authz.Role, status int) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1/governance/improvement/{agentId}" + path, ID: id, Tag: "Governance", Summary: summary,
			Status: status, Scopes: []authz.Scope{"agents:write"}, Role: role, Errors: []int{409},
		}
		if method == "GET" {
			r.Scopes, r.Errors = []authz.Scope{"agents:read"}, nil
		}
		return r
	}
	return []route.Route{
		route.Action(row("GET", "", "listImprovementProposals", "List the improvement proposals about an agent, newest first.",
			"", 200), m.list),
		route.Action(row("POST", "", "createImprovementProposal", "Propose an improvement of an agent.", authz.Developer, 201), m.create),
		route.Action(row("GET", "/{version}", "getImprovementProposal", "Read an improvement proposal.", "", 200), m.get),
		route.Action(row("PUT", "/{version}/status", "updateImprovementStatus",
			"Move an improvement proposal one step forward, or reject it.", authz.Admin, 200), m.move),
	}
}
