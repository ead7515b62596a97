package run

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/model"
)

// A fork tries a run again from one of its steps with something changed: the steps
// before it are copied, and what follows is made again (docs/runs.md).

type forkIn struct {
	RunID string `path:"runId"`
	Body  ForkRequest
}

// ForkRequest says where a run is forked, and what is changed there.
type ForkRequest struct {
	_ struct{} `json:"-" name:"RunFork"`

	StepSeq        int64                             `json:"step_seq" required:"true" minimum:"1" doc:"The seq of the first step that is made again. Those before it are copied."`
	ToolResult     *ForkedResult                     `json:"tool_result,omitzero" doc:"Replaces the result of the step, which must be a tool's: the tool is not called again, and the run goes on after it."`
	Message        string                            `json:"message,omitzero" maxLength:"100000" doc:"A message to the agent before it goes on. Required where the copied steps end with the answer."`
	Input          schema.Object                     `json:"input,omitzero" doc:"Replaces the run's input. Only with step_seq 1."`
	Version        int64                             `json:"version,omitzero" minimum:"1" doc:"Version of the agent; default: the run's, or the newest where that is not kept."`
	ResourceLimits *Limits                           `json:"resource_limits,omitzero" doc:"Limits of the new run; default: those of the run."`
	Settings       schema.NullableOf[model.Settings] `json:"model_settings,omitzero" doc:"How the model answers in the new run; takes precedence over the agent's, member by member."`
	Metadata       schema.Object                     `json:"metadata,omitzero" doc:"Data of yours, kept with the new run; default: that of the run."`
}

// ForkedResult is what a tool is said to have answered.
type ForkedResult struct {
	_ struct{} `json:"-" name:"ForkedToolResult"`

	Content string `json:"content" required:"true" maxLength:"1000000" doc:"What the model reads."`
	IsError bool   `json:"is_error,omitzero" doc:"The call failed."`
}

// fork is one fork that is being made.
type fork struct {
	*Service
	ForkRequest

	of       *Record
	replaced *Step // with the result of the request; nil without one
}

// forks is the part of a Service that forks runs.
type forks struct{ *Service }

// route starts a run that begins with the steps of another before one of them. It is
// not part of that run's session, but begins after the same earlier turns. Errors:
// NotFound; Conflict for a run that has not ended; Invalid for a step that the run
// does not have; those of Create.
func (s forks) route(ctx context.Context, who authz.Caller, in *forkIn) (*Run, error) {
	req := in.Body
	if err := CheckSettings(req.Settings); err != nil {
		return nil, err
	}
	of, err := s.Runs.Get(ctx, who.TenantID, in.RunID)
	if err != nil {
		return nil, err
	}
	if !of.Status.Final() {
		return nil, fault.WrongState("run", string(of.Status), "forking")
	}
	f := &fork{s.Service, req, of, nil}
	last, err := f.check(ctx)
	if err != nil {
		return nil, err
	}
	made, err := s.Create(ctx, who, f.request(last))
	if fault.Is(err, fault.NotFound) && req.Version == 0 { // the version is not kept any more
		again := f.request(last)
		again.AgentVersion = 0
		made, err = s.Create(ctx, who, again)
	}
	return made, err
}

// check refuses a fork that cannot be made, and returns the seq of the last step that
// the new run begins with.
func (f *fork) check(ctx context.Context) (last int64, err error) {
	steps, err := f.Runs.ListSteps(ctx, f.of.TenantID, f.of.RunID, 0, 0)
	if err != nil {
		return 0, err
	}
	if f.StepSeq > f.of.StepSeq+1 {
		return 0, badFork("step_seq", "the run has %d steps; at most %d", f.of.StepSeq, f.of.StepSeq+1)
	}
	if f.Input != nil {
		if f.StepSeq != 1 {
			return 0, badFork("input", "it can be replaced with step_seq 1 only; send message instead")
		}
		if err := CheckInput(f.Input); err != nil {
			return 0, err
		}
	}
	kept := steps
	for i := range steps {
		if steps[i].Seq >= f.StepSeq {
			kept = steps[:i]
			break
		}
	}
	last = f.StepSeq - 1
	if f.ToolResult != nil {
		if len(kept) == len(steps) || steps[len(kept)].Seq != f.StepSeq || steps[len(kept)].Type != StepTool {
			return 0, badFork("tool_result", "the step %d is not a tool's", f.StepSeq)
		}
		f.replace(steps[len(kept)])
		last = f.StepSeq
	}
	if f.Message = strings.TrimSpace(f.Message); f.Message != "" {
		return last + 1, nil
	}
	transcript, err := Transcribe(kept)
	if err == nil && f.ToolResult == nil && transcript.Answer != nil && len(transcript.OpenCalls()) == 0 {
		err = badFork("message", "required: the steps before %d end with the answer", f.StepSeq)
	}
	return last, err
}

func badFork(field, format string, args ...any) error {
	return fault.BadFields(fault.Field{Field: field, Message: fmt.Sprintf(format, args...)})
}

// replace notes the step with the result of the request in place of its own. What the
// call had read stays known.
func (f *fork) replace(s Step) {
	var before ToolOutput
	if len(s.Output) > 0 {
		_ = json.Unmarshal(s.Output, &before) // of our own journal; without it there are no sources
	}
	out, err := json.Marshal(ToolOutput{Content: f.ToolResult.Content, IsError: f.ToolResult.IsError, Sources: before.Sources})
	if err != nil {
		return
	}
	at := f.Clock.Now()
	s.StepID, s.StartedAt, s.CompletedAt, s.DurationMS = ident.New(), at, &at, 0
	s.Status, s.Error, s.Output, s.Metrics = StepCompleted, nil, schema.Nullable(out), schema.Nullable("{}")
	s.Attempts, s.ChildRunIDs, s.InheritedFrom = nil, nil, nil
	f.replaced = &s
}

func (f *fork) request(last int64) Request {
	r := f.of
	options := r.Options
	options.ForkOf, options.Inherits, options.Wakes = r.RunID, "", nil
	req := Request{
		RunID: ident.New(), AgentID: r.AgentID, AgentVersion: r.AgentVersion, Input: r.Input, Metadata: r.Metadata,
		Limits: r.ResourceLimits, Options: options, Settings: []byte(f.Settings), StepSeq: last,
		Answer: func(made *Run) any { return made },
	}
	if f.Input != nil {
		req.Input = f.Input
	}
	if f.Metadata != nil {
		req.Metadata = f.Metadata
	}
	if f.Version != 0 {
		req.AgentVersion = f.Version
	}
	if f.ResourceLimits != nil {
		req.Limits = *f.ResourceLimits
	}
	req.Admit = func(tx txn.Tx, made *Record) (now bool, err error) { return true, f.begin(tx, made) }
	return req
}

// begin stores the steps that the new run begins with.
func (f *fork) begin(tx txn.Tx, made *Record) error {
	if err := f.Runs.AppendForkedTx(tx, made.TenantID, f.of.RunID, made.RunID, f.StepSeq); err != nil {
		return err
	}
	if f.replaced != nil {
		step := *f.replaced
		step.RunID, step.TenantID = made.RunID, made.TenantID
		if err := f.Runs.AppendStep(&step)(tx); err != nil {
			return err
		}
	}
	if f.Message == "" {
		return nil
	}
	return appendNote(tx, f.Service, made, f.Message)
}
