package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/work"
)

// A run of an agent that is bound to a machine is carried there. Its row waits
// (WaitsForMachine) and holds no worker; what the machine reports changes it through a
// Report, in the transaction in which the machine learns that it was taken.

// MachinePatience is how long a machine may be silent about a run before the run ends.
const MachinePatience = 24 * time.Hour

// maxOpenCalls bounds the tool calls of a run that a machine has begun and not ended.
const maxOpenCalls = 64

// ErrOver reports that a run has ended, so that what its machine reports changes nothing.
var ErrOver = errors.New("run: it has ended")

// MachineTask is a run as its machine gets it.
type MachineTask struct {
	TenantID  string
	RunID     string
	AgentID   string
	SessionID *string
	TeamRunID *string
	StartedBy *Initiator
	Message   string
	History   []model.Message // earlier turns, oldest first; only text
	FileIDs   []string
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Report changes a run by what its machine reports. It is valid in its transaction.
type Report struct{ c *mutation }

// Carried is the runs that machines carry.
type Carried struct{ *Service }

// Report applies what the machine of a run reports, in one transaction. Errors: ErrOver
// where the run has ended; fault.NotFound where no machine carries it; those of do.
func (s Carried) Report(ctx context.Context, tenant, id string, do func(*Report) error) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		now := s.Clock.Now()
		// The item first, the row second, as in mutate. It stays due when it is.
		item := work.Item{Kind: s.WorkKind, Key: id, TenantID: tenant, Due: now.Add(MachinePatience)}
		if err := s.Queue.EnqueueTx(tx, item); err != nil {
			return err
		}
		r, err := s.Runs.LockTx(tx, tenant, id)
		switch {
		case err != nil:
			return err
		case !r.Options.OnMachine:
			return fault.NewNotFound("run")
		case r.Status.Final():
			return ErrOver
		}
		return s.change(tx, r, func(c *mutation) error {
			if r.Status == Running {
				r.Wait.For, r.Wait.Woken = WaitsForMachine, false
				if r.Wait.Since.IsZero() {
					r.Wait.Since = now
				}
				r.Wait.Next = MachineDeadline(r, now)
			}
			return do(&Report{c})
		})
	})
}

// MachineDeadline returns when a run ends that its machine reported on at now.
func MachineDeadline(r *Record, now time.Time) time.Time {
	next := now.Add(MachinePatience)
	if limit := r.ResourceLimits.MaxDurationMS; limit != nil {
		left := time.Duration(float64(*limit)-r.Metrics.DurationMS) * time.Millisecond
		if end := r.Wait.Since.Add(max(0, left)); end.Before(next) {
			next = end
		}
	}
	return next
}

// Tx is the transaction of the report.
func (p *Report) Tx() txn.Tx { return p.c.tx }

// Over reports whether the report has ended the run.
func (p *Report) Over() bool { return p.c.r.Status.Final() }

// Text adds text that the machine's model wrote, thought or not.
func (p *Report) Text(text string, thinking bool) error {
	if p.c.s.Redaction.Of(p.c.r.TenantID) != nil { // pieces cannot be redacted; the whole follows at the end
		return nil
	}
	return p.text(text, thinking)
}

func (p *Report) text(text string, thinking bool) error {
	if text == "" {
		return nil
	}
	name := "llm.chunk"
	if thinking {
		name = "llm.thinking"
	}
	return p.c.emit(name, struct {
		Text string `json:"text"`
	}{text})
}

// MachineStatusData is the data of the event machine.status.
type MachineStatusData struct {
	Status  string `json:"status,omitzero" doc:"What the machine calls the state of the task."`
	Message string `json:"message,omitzero" doc:"What it says, for a person."`
}

// Status adds what the machine says of the task.
func (p *Report) Status(d MachineStatusData) error { return p.c.emit("machine.status", d) }

// MachineMetricsData is the data of the event machine.metrics.
type MachineMetricsData struct {
	Metrics schema.Object `json:"metrics" doc:"What the machine counted of the task so far."`
}

// MachineCounts are what a machine counted of a task so far.
type MachineCounts struct {
	ModelCalls, ToolCalls, InputTokens, OutputTokens int64
}

// Metrics adds what the machine counted so far. The platform counts the calls of its models
// itself, where a machine uses those: here they are only shown.
func (p *Report) Metrics(raw schema.Object, n MachineCounts) error {
	m := &p.c.r.Metrics
	m.LLMCallsCount, m.ToolCallsCount = max(m.LLMCallsCount, n.ModelCalls), max(m.ToolCallsCount, n.ToolCalls)
	m.InputTokens, m.OutputTokens = max(m.InputTokens, n.InputTokens), max(m.OutputTokens, n.OutputTokens)
	if len(raw) == 0 {
		return nil
	}
	return p.c.emit("machine.metrics", MachineMetricsData{raw})
}

type machineCall struct {
	StepRef
	ToolCallID string         `json:"tool_call_id"`
	Name       string         `json:"name"`
	Arguments  jsontext.Value `json:"arguments"`
}

// ToolCall begins a tool call on the machine. One that was begun already is not begun
// again.
func (p *Report) ToolCall(id, name, arguments string) error {
	if p.open(id) >= 0 {
		return nil
	}
	c, r := p.c, p.c.r
	if len(r.Pending) >= maxOpenCalls {
		return fault.BadFields(fault.Field{
			Field: "type", Message: fmt.Sprintf("%d tool calls of the task have no result yet; report their results first", maxOpenCalls),
		})
	}
	r.StepSeq++
	step := PendingStep{
		StepID: ident.New(), Seq: r.StepSeq, Type: StepTool, StartedAt: c.now,
		Tool: &ToolInput{ToolCallID: id, Name: name, Arguments: arguments},
	}
	r.Pending = append(r.Pending, step)
	if err := c.emit("step.started", StepStartedData{step.Ref(), step.Type}); err != nil {
		return err
	}
	return c.emit("tool.call", machineCall{step.Ref(), id, name, ArgumentsJSON(arguments)})
}

func (p *Report) open(call string) int {
	return slices.IndexFunc(p.c.r.Pending, func(s PendingStep) bool { return s.Tool != nil && s.Tool.ToolCallID == call })
}

// ToolResult ends a tool call with its result. A call that was not reported before is
// begun with it.
func (p *Report) ToolResult(id, name, output string, failed bool) error {
	if p.open(id) < 0 {
		if err := p.ToolCall(id, name, "{}"); err != nil {
			return err
		}
	}
	c, r, i := p.c, p.c.r, p.open(id)
	begun := r.Pending[i]
	r.Pending = slices.Delete(r.Pending, i, i+1)
	step := &Step{
		StepID: begun.StepID, Seq: begun.Seq, Type: StepTool, Status: StepCompleted, StartedAt: begun.StartedAt,
	}
	status, use := "done", quota.Use{ToolCalls: 1}
	if failed {
		status, use.ToolErrors = "error", 1
	}
	var err error
	if step.Input, err = json.Marshal(begun.Tool); err != nil {
		return err
	}
	if step.Output, err = json.Marshal(ToolOutput{Content: output, IsError: failed, Sources: []string{model.SourceFile}}); err != nil {
		return err
	}
	if step.Metrics, err = json.Marshal(StepMetrics{ToolCallsCount: 1}); err != nil {
		return err
	}
	err = c.emit("tool.result", struct {
		StepRef
		ToolCallID string  `json:"tool_call_id"`
		Name       string  `json:"name"`
		Status     string  `json:"status"`
		DurationMS float64 `json:"duration_ms"`
		Output     string  `json:"output"`
	}{step.Ref(), id, begun.Tool.Name, status, float64(c.now.Sub(begun.StartedAt).Microseconds()) / 1000, output})
	if err != nil {
		return err
	}
	r.Metrics.ToolCallsCount++
	c.uses = append(c.uses, use)
	return c.endStep(step)
}

// MachineApproval is the approval that a machine asks for.
type MachineApproval struct {
	ApprovalID string // of the platform
	ToolCallID string
	ToolName   string
	Arguments  string
	Lasts      time.Duration
}

// AskApproval makes the run wait for a person's approval of what the machine is about to
// do. One that was asked for already is not asked for again.
func (p *Report) AskApproval(ask MachineApproval) error {
	c, r := p.c, p.c.r
	all, err := c.s.Runs.ListApprovalsByRun(c.tx.Context(), c.tx, r.TenantID, r.RunID)
	if err != nil {
		return err
	}
	pending := 0
	for _, a := range all {
		if a.ApprovalID == ask.ApprovalID {
			return nil
		}
		if a.Status == ApprovalPending {
			pending++
		}
	}
	if pending >= maxOpenCalls {
		return fault.BadFields(fault.Field{
			Field: "approval_id", Message: fmt.Sprintf("%d approvals of the task are not decided yet; wait for them", maxOpenCalls),
		})
	}
	shown := ArgumentsJSON(cmp.Or(ask.Arguments, "{}"))
	a := &Approval{
		ApprovalID: ask.ApprovalID, RunID: r.RunID, TenantID: r.TenantID, AgentID: r.AgentID, SessionID: r.SessionID,
		ToolCallID: ask.ToolCallID, ToolName: ask.ToolName, Arguments: schema.Any(shown), ArgumentsHash: HashArguments(string(shown)),
		Status: ApprovalPending, RequestedAt: c.now, ExpiresAt: c.now.Add(ask.Lasts),
	}
	if err := c.s.Runs.CreateApproval(a)(c.tx); err != nil {
		return err
	}
	err = c.emit("approval.requested", struct {
		ApprovalID string         `json:"approval_id"`
		ToolCallID string         `json:"tool_call_id"`
		Name       string         `json:"name"`
		Arguments  jsontext.Value `json:"arguments"`
		ExpiresAt  time.Time      `json:"expires_at"`
	}{a.ApprovalID, a.ToolCallID, a.ToolName, shown, a.ExpiresAt})
	if err != nil {
		return err
	}
	until := a.ExpiresAt
	if r.Status == AwaitingApproval {
		until = r.Wait.Until
	} else if err := c.endWait(); err != nil {
		return err
	}
	first := r.Status != AwaitingApproval
	r.Status, r.Wait = AwaitingApproval, Wait{Until: until, Approvals: r.Wait.Approvals + 1}
	item := work.Item{Kind: c.s.WorkKind, Key: r.RunID, TenantID: r.TenantID, Due: until}
	if err := c.s.Queue.EnqueueTx(c.tx, item); err != nil || !first {
		return err
	}
	return c.emit(AwaitingApproval.EventName(), struct {
		Status Status `json:"status"`
	}{AwaitingApproval})
}
