package review

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

type replayIn struct {
	RunID string `path:"runId"`
	Body  struct {
		Mode    string `json:"mode" enum:"verify,execute" default:"verify" doc:"verify: compare the events of the run with its steps. execute: run it again with the results that its tools had."`
		Version int64  `json:"version,omitzero" minimum:"1" doc:"With execute: the version of the agent that runs; default: the run's."`
	}
}

// Replay is the result of a replay.
type Replay struct {
	_ struct{} `json:"-" name:"RunReplay"`

	RunID         string       `json:"run_id" format:"uuid" required:"true"`
	Mode          string       `json:"mode" enum:"verify,execute" required:"true"`
	Verified      string       `json:"verified" enum:"recorded_log" required:"true" doc:"What was verified: the log of the run's events."`
	Deterministic bool         `json:"deterministic" required:"true" doc:"Events and steps of the run agree. Of a new run only its comparison shows whether it does the same."`
	Played        int64        `json:"events_replayed" required:"true"`
	Divergence    *int64       `json:"divergence_point,omitzero" doc:"The seq of the first event that does not fit; of the last one where something is missing."`
	Reason        string       `json:"divergence_reason,omitzero" doc:"What does not fit there."`
	Steps         []StepVerify `json:"step_comparisons,omitzero" doc:"Each step of the run, compared with its events."`
	ReplayRunID   string       `json:"replay_run_id,omitzero" format:"uuid" doc:"With execute: the new run."`
}

// StepVerify is the comparison of a step with its events.
type StepVerify struct {
	_ struct{} `json:"-" name:"RunStepComparison"`

	Seq     int64        `json:"seq" required:"true"`
	Type    run.StepType `json:"type" required:"true"`
	Matches bool         `json:"matches" required:"true"`
	Detail  string       `json:"mismatch_detail,omitzero"`
}

// replay verifies the record of a run, and starts it again if the request says so.
func (s *Service) replay(ctx context.Context, who authz.Caller, in *replayIn) (*Replay, error) {
	execute := in.Body.Mode == "execute"
	if execute {
		if err := who.Check("", "runs:create"); err != nil {
			return nil, err
		}
	}
	r, err := s.Runs.Get(ctx, who.TenantID, in.RunID)
	if err != nil {
		return nil, err
	}
	if !r.Status.Final() {
		return nil, fault.WrongState("run", string(r.Status), "replaying")
	}
	p, err := s.verify(ctx, r)
	if err != nil {
		return nil, err
	}
	answer := p.answer()
	if !execute {
		return answer, nil
	}
	answer.Mode, answer.ReplayRunID = in.Body.Mode, ident.New()
	req := run.Replaying(r, answer.ReplayRunID, in.Body.Version)
	req.Answer = func(*run.Run) any { return answer }
	_, err = s.Starter.Create(ctx, who, req)
	return answer, err
}

// played is the record of a run while it is played again.
type played struct {
	run    *run.Record
	steps  []run.Step
	seen   map[int64]*seenStep // by seq
	status run.Status          // by the events
	events int64
	last   int64 // seq of the last event
	result Replay
}

// seenStep is what the events show of a step.
type seenStep struct {
	started, completed bool
	kind               run.StepType
	status             run.StepStatus
	text               strings.Builder
	calls              int
}

// verify plays the events of a run and compares them with its steps.
func (s *Service) verify(ctx context.Context, r *run.Record) (*played, error) {
	steps, err := s.Runs.ListSteps(ctx, r.TenantID, r.RunID, 0, 0)
	if err != nil {
		return nil, err
	}
	p := &played{run: r, seen: map[int64]*seenStep{}, status: run.Queued}
	p.steps = slices.DeleteFunc(steps, func(s run.Step) bool { return s.InheritedFrom != nil })
	for {
		events, err := s.Log.Read(ctx, r.TenantID, r.RunID, p.last, eventPage)
		if err != nil {
			return nil, err
		}
		for i := range events {
			p.play(&events[i])
		}
		if len(events) < eventPage {
			break
		}
	}
	p.compare()
	return p, nil
}

// diverge notes the first event that does not fit.
func (p *played) diverge(format string, args ...any) {
	if p.result.Divergence == nil {
		at := p.last
		p.result.Divergence, p.result.Reason = &at, fmt.Sprintf(format, args...)
	}
}

// eventData is what is read of an event.
type eventData struct {
	StepSeq int64        `json:"step_seq"`
	Type    run.StepType `json:"type"`
	Status  string       `json:"status"`
	Text    string       `json:"text"`
}

func (p *played) play(e *event.Event) {
	if e.Seq <= p.last {
		p.diverge("the event %s has the seq %d, which is not greater than the one before", e.Name, e.Seq)
	}
	p.last = e.Seq
	p.events++
	var data eventData
	if len(e.Data) > 0 {
		if err := json.Unmarshal(e.Data, &data); err != nil {
			p.diverge("the data of %s cannot be read", e.Name)
			return
		}
	}
	if area, _, _ := strings.Cut(e.Name, "."); area == "run" {
		p.move(run.Status(data.Status), e.Name)
		return
	}
	p.playStep(e.Name, &data)
}

// move follows the states of the run.
func (p *played) move(to run.Status, name string) {
	if !to.Valid() || to == p.status {
		return
	}
	if !p.status.May(to) {
		p.diverge("%s moves the run from %s to %s", name, p.status, to)
	}
	p.status = to
}

func (p *played) playStep(name string, data *eventData) {
	if data.StepSeq == 0 {
		return
	}
	step := p.seen[data.StepSeq]
	if step == nil {
		step = &seenStep{}
		p.seen[data.StepSeq] = step
	}
	switch name {
	case "step.started":
		step.started, step.kind = true, data.Type
	case "step.completed":
		step.completed, step.kind, step.status = true, data.Type, run.StepStatus(data.Status)
	case "llm.chunk":
		step.text.WriteString(data.Text)
	case "step.draft_void":
		step.text.Reset()
	case "tool.result":
		step.calls++
	}
}

// compare compares the steps of the run with what the events showed.
func (p *played) compare() {
	for i := range p.steps {
		step := &p.steps[i]
		c := StepVerify{Seq: step.Seq, Type: step.Type}
		c.Detail = p.mismatch(step)
		c.Matches = c.Detail == ""
		if !c.Matches {
			p.diverge("the step %d: %s", step.Seq, c.Detail)
		}
		p.result.Steps = append(p.result.Steps, c)
	}
	if p.status != p.run.Status {
		p.diverge("the events end with the run %s, and it is %s", p.status, p.run.Status)
	}
}

// mismatch returns what of a step its events do not show; "" if they agree.
func (p *played) mismatch(step *run.Step) string {
	seen := p.seen[step.Seq]
	switch {
	case seen == nil || !seen.started:
		return "no event shows that it was started"
	case !seen.completed:
		return "no event shows that it was completed"
	case seen.kind != step.Type:
		return fmt.Sprintf("its events are of type %s", seen.kind)
	case seen.status != step.Status:
		return fmt.Sprintf("by its events it is %s, and it is %s", seen.status, step.Status)
	case step.Type == run.StepTool && seen.calls != 1:
		return fmt.Sprintf("its events have %d results", seen.calls)
	case step.Type != run.StepLLM || step.Status != run.StepCompleted:
		return ""
	}
	var out run.LLMOutput
	if json.Unmarshal(step.Output, &out) != nil {
		return "its output cannot be read"
	}
	if seen.text.String() != out.Text {
		return "the text that was streamed is not that of the step"
	}
	return ""
}

// answer returns the result of a verification.
func (p *played) answer() *Replay {
	a := p.result
	a.RunID, a.Mode, a.Verified, a.Played = p.run.RunID, "verify", "recorded_log", p.events
	a.Deterministic = a.Divergence == nil
	return &a
}
