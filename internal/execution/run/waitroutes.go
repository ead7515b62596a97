package run

import (
	"context"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

type approveIn struct {
	RunID string `path:"runId"`
	Body  struct {
		_ struct{} `json:"-" additionalProperties:"false"`
		ApproveRequest
	}
}

type rejectIn struct {
	RunID string `path:"runId"`
	Body  struct {
		_ struct{} `json:"-" additionalProperties:"false"`
		RejectRequest
	}
}

type resumeIn struct {
	RunID string `path:"runId"`
	Body  struct {
		Input schema.Object `json:"input,omitzero" doc:"note or message: a message to the agent before it continues."`
	}
}

type respondIn struct {
	RunID string `path:"runId"`
	Body  struct {
		Response string `json:"response" required:"true" maxLength:"100000" doc:"The answer to the question."`
	}
}

type pauseAnswer struct {
	_ struct{} `json:"-" name:"RunPaused"`

	Paused bool   `json:"paused" required:"true"`
	RunID  string `json:"run_id" required:"true"`
}

type resumeAnswer struct {
	_ struct{} `json:"-" name:"RunResumed"`

	Resumed bool   `json:"resumed" required:"true"`
	RunID   string `json:"run_id" required:"true"`
}

type respondAnswer struct {
	_ struct{} `json:"-" name:"RunAnswered"`

	Accepted bool   `json:"accepted" required:"true" doc:"Always true; refusals are errors."`
	Status   string `json:"status" enum:"ok" required:"true"`
	RunID    string `json:"run_id" required:"true"`
}

type approvalsIn struct {
	ApprovalFilter

	Fields string `query:"fields" enum:"all,summary" default:"all" page:"-" doc:"summary: rows without arguments, but with the names of their agents."`
	Limit  string `query:"limit" doc:"Approvals per page, 1 to 100; default 50."`
	Cursor string `query:"cursor"`
}

type approvalIn struct {
	ApprovalID string `path:"approvalId"`
}

// ApprovalPage is one page of approvals, newest first.
type ApprovalPage struct {
	_ struct{} `json:"-" name:"ApprovalList"`

	Items   []Approval `json:"items" required:"true"`
	Cursor  *string    `json:"cursor" required:"true"`
	HasMore bool       `json:"has_more" required:"true"`
}

// waitRoutes returns the operations on runs that wait, and on approvals.
func (s *Service) waitRoutes() []route.Route {
	read := []authz.Scope{"runs:read"}
	create := []authz.Scope{"runs:create"}
	act := func(path, id, summary, doc string) route.Row {
		return route.Row{
			Method: "POST", Path: "/api/v1/runs/{runId}/" + path, ID: id, Tag: "Runs", Scopes: create, Role: authz.Developer,
			Summary: summary, Doc: doc, Errors: []int{404, 409},
		}
	}
	accepted := func(r route.Row) route.Row {
		r.Status = 202
		return r
	}
	withoutBody := func(r route.Row) route.Row { // the body is optional
		r.Optional = true
		return r
	}
	return []route.Route{
		route.Action(withoutBody(act("approve", "approveRun", "Approve a tool call",
			"Without approval_id the pending approval is meant. Of two simultaneous decisions one counts; the other gets 409.")), s.approve),
		route.Action(withoutBody(act("reject", "rejectRun", "Reject a tool call",
			"The run ends as rejected. With continue, the model gets the rejection and the run continues.")), s.reject),
		route.Action(act("pause", "pauseRun", "Pause a run",
			"The run stops at its next step boundary. A step that is under way is finished; an answer is held until the run is resumed."),
			func(ctx context.Context, who authz.Caller, in *idIn) (pauseAnswer, error) {
				answer := pauseAnswer{Paused: true, RunID: in.RunID}
				return answer, s.Pause(txn.WithAnswer(ctx, func() any { return answer }), who.TenantID, in.RunID)
			}),
		route.Action(withoutBody(accepted(act("resume", "resumeRun", "Resume a paused run",
			"A note becomes a message to the agent. If the run waits for an answer, use respond instead."))), s.resume),
		route.Action(act("respond", "respondToRun", "Answer a run's question",
			"The answer is the result of the agent's call of ask_user."), s.respond),
		route.Action(accepted(act("continue", "continueRun", "Continue a run",
			"With a token: a truncated run, with the conversation so far. Without: a run that failed or timed out; the new run begins with all "+
				"its steps, and tries what failed again. Once only: then 409 with the new run's id.")),
			func(ctx context.Context, who authz.Caller, in *continueIn) (ContinueAnswer, error) {
				return s.Continue(ctx, who, in.RunID, in.Body.ContinuationToken, in.Body.Message)
			}),
		route.Action(accepted(act("fork", "forkRun", "Fork a run",
			"Starts a new run with the steps of an ended one before step_seq; what follows is made again, with what the request changes. "+
				"Tools of the copied steps are not called again; approvals of later ones are asked for again. The new run has its own budget, "+
				"and is not part of the session of the other, whose earlier turns it knows.")), forks{s}.route),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/approvals", ID: "listApprovals", Tag: "Approvals", Scopes: read, Role: authz.Viewer,
			Summary: "List approvals, newest first", Errors: []int{400, 422},
			Doc: "With status=pending, the approvals of all agents that wait for a decision.",
		}, s.approvals),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/approvals/{approvalId}", ID: "getApproval", Tag: "Approvals", Scopes: read, Role: authz.Viewer,
			Summary: "Get an approval", Errors: []int{404},
		}, func(ctx context.Context, who authz.Caller, in *approvalIn) (*Approval, error) {
			return s.Runs.GetApproval(ctx, who.TenantID, in.ApprovalID)
		}),
	}
}

func (s *Service) approve(ctx context.Context, who authz.Caller, in *approveIn) (ApproveAnswer, error) {
	return s.Approve(ctx, who, in.RunID, in.Body.ApproveRequest)
}

func (s *Service) reject(ctx context.Context, who authz.Caller, in *rejectIn) (RejectAnswer, error) {
	return s.Reject(ctx, who, in.RunID, in.Body.RejectRequest)
}

func (s *Service) resume(ctx context.Context, who authz.Caller, in *resumeIn) (resumeAnswer, error) {
	note, err := noteOf(in.Body.Input)
	if err != nil {
		return resumeAnswer{}, err
	}
	answer := resumeAnswer{Resumed: true, RunID: in.RunID}
	return answer, s.Resume(txn.WithAnswer(ctx, func() any { return answer }), who.TenantID, in.RunID, note)
}

func (s *Service) respond(ctx context.Context, who authz.Caller, in *respondIn) (respondAnswer, error) {
	if strings.TrimSpace(in.Body.Response) == "" {
		return respondAnswer{}, fault.New(fault.Malformed, "INVALID_REQUEST", "The response is empty; send the answer as text.")
	}
	answer := respondAnswer{Accepted: true, Status: "ok", RunID: in.RunID}
	return answer, s.Respond(txn.WithAnswer(ctx, func() any { return answer }), who.TenantID, in.RunID, in.Body.Response)
}

func (s *Service) approvals(ctx context.Context, who authz.Caller, in *approvalsIn) (*ApprovalPage, error) {
	scope := page.ScopeOf(who.TenantID, "approvals", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	n := page.Limit(in.Limit, 50, maxPage)
	p := &ApprovalPage{}
	if p.Items, err = s.Runs.ListApprovals(ctx, who.TenantID, in.ApprovalFilter, page.Window{After: after, Limit: n + 1}); err != nil {
		return nil, err
	}
	if len(p.Items) > n {
		p.Items, p.HasMore = p.Items[:n], true
		next := s.Cursors.Seal(scope, p.Items[n-1].ApprovalID)
		p.Cursor = &next
	}
	if in.Fields == "summary" {
		err = families{s}.summarize(ctx, who.TenantID, p.Items)
	}
	return p, err
}
