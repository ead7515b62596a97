package run

import (
	"context"
	"strconv"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
)

// A final state is never left, so a run that a limit cut off is continued by a
// new run, which begins with its conversation (docs/runs.md).

type continueIn struct {
	RunID string `path:"runId"`
	Body  struct {
		ContinuationToken string `json:"continuation_token" required:"true" minLength:"1" doc:"From the output of a run that was truncated."`
		Message           string `json:"message,omitzero" maxLength:"100000" doc:"Message to the agent; default: continue."`
	}
}

// ContinueAnswer identifies the run that continues another.
type ContinueAnswer struct {
	_ struct{} `json:"-" name:"RunContinued"`

	Continued  bool   `json:"continued" required:"true"`
	RunID      string `json:"run_id" format:"uuid" required:"true" doc:"The new run, which continues the truncated one."`
	Checkpoint int64  `json:"checkpoint" doc:"The last step of the run that was cut off."`
	ResumeStep int64  `json:"resume_step" doc:"The first step of the new run, counted over both."`
}

// continuation binds a token to its run. It is no list, so no input tells its scope.
func continuation(tenant, id string) page.Scope {
	return page.Scope{Tenant: tenant, List: "continuation", Filter: []string{id}}
}

// Continuation returns the token by which a truncated run is continued.
func (s *Service) Continuation(tenant, id string, step int64) string {
	return s.Cursors.Seal(continuation(tenant, id), strconv.FormatInt(step, 10))
}

// continueMessage is the message to the agent if the caller sends none.
const continueMessage = "Go on from where you were cut off."

// Continue starts a run that continues a truncated one. Errors: NotFound;
// Conflict unless the run completed; Invalid for a token that is not of this
// run; those of Create.
func (s *Service) Continue(ctx context.Context, who authz.Caller, id, token, message string) (ContinueAnswer, error) {
	var none ContinueAnswer
	r, err := s.Runs.Get(ctx, who.TenantID, id)
	if err != nil {
		return none, err
	}
	if r.Status != Completed {
		return none, fault.WrongState("run", string(r.Status), "continuing")
	}
	at, err := s.Cursors.Open(continuation(who.TenantID, id), token)
	if err != nil || at == "" {
		return none, fault.BadFields(fault.Field{Field: "continuation_token", Message: "it is not a token of this run"})
	}
	step, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return none, err
	}
	if message == "" {
		message = continueMessage
	}
	input, err := json.Marshal(Input{Message: message})
	if err != nil {
		return none, err
	}
	metadata, err := json.Marshal(struct {
		ContinuedFrom string `json:"continued_from"`
	}{id})
	if err != nil {
		return none, err
	}
	req := Request{
		AgentID: r.AgentID, AgentVersion: r.AgentVersion, SessionID: r.SessionID,
		Input: schema.Object(input), Metadata: schema.Object(metadata), Limits: r.ResourceLimits,
		Options: Options{
			Continues: id, Model: r.Options.Model, Tools: r.Options.Tools, ToolChoice: r.Options.ToolChoice, Extra: r.Options.Extra,
		},
	}
	if r.SessionID != nil {
		if s.Sessions == nil {
			return none, fault.NoSuch("session")
		}
		if err := s.Sessions.Join(ctx, who.TenantID, &req); err != nil {
			return none, err
		}
	}
	answer := func(made *Run) any {
		return ContinueAnswer{Continued: true, RunID: made.RunID, Checkpoint: step, ResumeStep: step + 1}
	}
	req.Answer = answer
	made, err := s.Create(ctx, who, req)
	if err != nil {
		return none, err
	}
	return answer(made).(ContinueAnswer), nil
}
