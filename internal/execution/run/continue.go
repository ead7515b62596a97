package run

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

// A final state is never left, so a run that a limit cut off is continued by a
// new run, which begins with its conversation (docs/runs.md).

type continueIn struct {
	RunID string `path:"runId"`
	Body  struct {
		ContinuationToken string `json:"continuation_token,omitzero" doc:"From the output of a run that was truncated. Omitted for a run that failed or timed out."`
		Message           string `json:"message,omitzero" maxLength:"100000" doc:"Message to the agent; default for a truncated run: continue."`
	}
}

// ContinueAnswer identifies the run that continues another.
type ContinueAnswer struct {
	_ struct{} `json:"-" name:"RunContinued"`

	Continued  bool   `json:"continued" required:"true"`
	RunID      string `json:"run_id" format:"uuid" required:"true" doc:"The new run, which continues the other one."`
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

// Continue starts a run that continues another one: with a token one that was
// truncated, without one that failed or timed out. Errors: NotFound; Conflict for
// a run in another state; Invalid for a token that is not of this run; those of
// Create.
func (s *Service) Continue(ctx context.Context, who authz.Caller, id, token, message string) (ContinueAnswer, error) {
	var none ContinueAnswer
	r, err := s.Runs.Get(ctx, who.TenantID, id)
	if err != nil {
		return none, err
	}
	if token == "" {
		return s.continueFailed(ctx, who, r, message)
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
			WorkspaceID: r.Options.WorkspaceID, Visitor: r.Options.Visitor, Outcome: r.Options.Outcome,
		},
	}
	if r.SessionID != nil {
		if s.Sessions == nil {
			return none, fault.NewNotFound("session")
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

// notContinued are the codes of failures that continuing cannot cure.
var notContinued = []string{CodeAgentDeleted, CodePolicyBlocked}

// continueFailed starts a run that begins with all steps of a run that failed or
// timed out, and tries what failed again. Errors: Conflict for a run in another
// state, or with ALREADY_CONTINUED and run_id for one that is continued already.
func (s *Service) continueFailed(ctx context.Context, who authz.Caller, r *Record, message string) (ContinueAnswer, error) {
	var none ContinueAnswer
	switch {
	case r.Status == Completed && truncated(r.Output):
		return none, fault.BadFields(fault.Field{
			Field: "continuation_token", Message: "it is required for a run that completed; the run's output has it",
		})
	case r.Status != Failed && r.Status != TimedOut || slices.Contains(notContinued, r.ErrorCode):
		return none, fault.WrongState("run", cmp.Or(r.ErrorCode, string(r.Status)), "continuing")
	case r.ContinuedByRunID != nil:
		return none, AlreadyContinued(*r.ContinuedByRunID)
	}
	options, step := r.Options, r.StepSeq
	options.Inherits = r.RunID
	if strings.TrimSpace(message) != "" {
		step++ // the message is the first step of the new run
	}
	req := Request{
		RunID: ident.New(), AgentID: r.AgentID, AgentVersion: r.AgentVersion, SessionID: r.SessionID,
		Input: r.Input, Metadata: r.Metadata, Limits: r.ResourceLimits, Options: options, StepSeq: step,
	}
	if r.SessionID != nil {
		if s.Sessions == nil {
			return none, fault.NewNotFound("session")
		}
		if err := s.Sessions.Replace(ctx, who.TenantID, &req, r.RunID); err != nil {
			return none, err
		}
	}
	req.Admit = s.inheriting(r.RunID, message, req.Admit)
	answer := func(made *Run) any {
		return ContinueAnswer{Continued: true, RunID: made.RunID, Checkpoint: r.StepSeq, ResumeStep: r.StepSeq + 1}
	}
	req.Answer = answer
	made, err := s.Create(ctx, who, req)
	if fault.Is(err, fault.NotFound) { // the version is not kept any more
		req.AgentVersion = 0
		made, err = s.Create(ctx, who, req)
	}
	if err != nil {
		return none, err
	}
	return answer(made).(ContinueAnswer), nil
}

// inheriting is the admission of a run that begins with the steps of another, and
// a message to the agent, if there is one.
func (s *Service) inheriting(from, message string, then Admission) Admission {
	return func(tx txn.Tx, r *Record) (now bool, err error) {
		if err := s.Runs.AppendInheritedTx(tx, r.TenantID, from, r.RunID); err != nil {
			return false, err
		}
		if strings.TrimSpace(message) != "" {
			if err := appendNote(tx, s, r, message); err != nil {
				return false, err
			}
		}
		if then == nil {
			return true, nil
		}
		return then(tx, r)
	}
}

// appendNote stores a message to the agent as the newest step of a new run.
func appendNote(tx txn.Tx, s *Service, r *Record, message string) error {
	out, err := json.Marshal(NoteOutput{message})
	if err != nil {
		return err
	}
	at := s.Clock.Now()
	return s.Runs.AppendStep(&Step{
		StepID: ident.New(), RunID: r.RunID, TenantID: r.TenantID, Seq: r.StepSeq, StepIndex: r.StepSeq - 1,
		Type: StepInput, Status: StepCompleted, StartedAt: at, CompletedAt: &at, Output: out, Metrics: schema.Nullable("{}"),
	})(tx)
}

func truncated(output schema.Nullable) bool {
	var out Output
	return len(output) > 0 && json.Unmarshal(output, &out) == nil && out.Truncated
}

// AlreadyContinued is the refusal to continue a run twice.
func AlreadyContinued(by string) error {
	f := fault.New(fault.Conflict, "ALREADY_CONTINUED", "The run is continued by the run %s already; follow that one.", by)
	f.Extra = map[string]any{"run_id": by}
	return f
}
