package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
)

// Event is what a machine reports on a task.
type Event struct {
	_ struct{} `json:"-" name:"BridgeTaskEvent"`

	EventID   string    `json:"event_id,omitzero" maxLength:"200" doc:"Id of the event: what is reported with the same one counts once. Left out: type, time and content stand for it."`
	Type      string    `json:"type" required:"true" minLength:"1" maxLength:"100" doc:"What happened: status, tool_call, tool_result, content, text, thinking, metrics, approval_request, error, completed, failed, capability_report, escalation or approval_denied. Other types are taken, and not streamed."`
	Timestamp time.Time `json:"timestamp" required:"true" doc:"When it happened, by the machine's clock."`

	Message    string        `json:"message,omitzero" maxLength:"20000" doc:"What the machine says, for a person; of a failure, why."`
	Status     string        `json:"status,omitzero" maxLength:"100" doc:"State of the task as the machine sees it: working, completed, failed, approval_denied."`
	Content    string        `json:"content,omitzero" maxLength:"500000" doc:"A piece of what the model wrote."`
	Output     string        `json:"output,omitzero" maxLength:"500000" doc:"Of completed: the answer. Left out: what was streamed since the last tool call."`
	ToolName   string        `json:"tool_name,omitzero" maxLength:"300" doc:"The tool of a call, a result or an approval."`
	ToolArgs   string        `json:"tool_args_preview,omitzero" maxLength:"100000" doc:"Arguments of the call, or their beginning."`
	ToolCallID string        `json:"tool_call_id,omitzero" maxLength:"300" doc:"Id of the call, which its result has too."`
	ToolResult string        `json:"tool_result_preview,omitzero" maxLength:"100000" doc:"Result of the call, or its beginning."`
	ApprovalID string        `json:"approval_id,omitzero" maxLength:"200" doc:"Id of the approval that is asked for, of the machine's choice."`
	Metrics    schema.Object `json:"metrics,omitzero" doc:"What was counted of the task so far: tool_calls_count, llm_calls, files_modified, commands_executed, execution_time_ms, and others."`
	Code       string        `json:"code,omitzero" maxLength:"100" doc:"Of a failure: a stable code."`
	Error      string        `json:"error,omitzero" maxLength:"20000" doc:"Of a failure, or of a tool call that failed: why."`
	Input      int64         `json:"input_tokens,omitzero" minimum:"0" doc:"Tokens that the model has read for the task so far."`
	OutputTok  int64         `json:"output_tokens,omitzero" minimum:"0" doc:"Tokens that it has written so far."`

	Capabilities     []string `json:"capabilities,omitzero" maxItems:"200" maxLength:"200" doc:"Of capability_report: what the machine can do now."`
	WorkingDirectory string   `json:"working_directory,omitzero" maxLength:"4096" doc:"Of capability_report: its folder now."`
	Hostname         string   `json:"hostname,omitzero" maxLength:"300" doc:"Of capability_report: its name in its network."`
}

// key identifies an event within its task.
func (e *Event) key() string {
	if e.EventID != "" {
		return "i:" + e.EventID
	}
	h := sha256.New()
	at := e.Timestamp.UTC().Format(time.RFC3339Nano)
	for _, part := range []string{e.Type, at, e.Content, e.Message, e.Output, e.ToolCallID, e.ToolResult} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return "h:" + hex.EncodeToString(h.Sum(nil)[:16])
}

func (e *Event) size() (n int64) {
	return int64(len(e.Content) + len(e.Output) + len(e.Message) + len(e.ToolArgs) + len(e.ToolResult) + len(e.Metrics) + 100)
}

// ends reports whether the event ends its task, and whether as completed.
func (e *Event) ends() (ends, well bool) {
	switch e.Type {
	case "completed":
		return true, e.Status != "failed"
	case "failed":
		return true, false
	case "error":
		return e.Status == "failed", false
	}
	return false, false
}

// Receipt is the answer to a report.
type Receipt struct {
	_ struct{} `json:"-" name:"BridgeReceipt"`

	Success  bool   `json:"success" required:"true" doc:"Whether the events were taken."`
	Stored   int    `json:"events_stored" required:"true" doc:"Events that are new; those that were reported before are not counted."`
	Received int    `json:"received" required:"true" doc:"Events that were taken, new or not."`
	Abort    bool   `json:"abort,omitzero" doc:"The machine is to stop working on the task: its run has ended, and nothing of the report was taken."`
	Reason   string `json:"reason,omitzero" doc:"Why it is to stop."`
}

// Report takes what the caller's machine reports on a task. Errors: NotFound where no
// machine of the caller has it; Invalid; TooLarge.
func (s *Service) Report(ctx context.Context, who authz.Caller, taskID string, events []Event) (*Receipt, error) {
	m, over, err := s.taskMachine(ctx, who, taskID)
	if err != nil {
		return nil, err
	}
	if over != "" {
		return &Receipt{Abort: true, Reason: over}, nil
	}
	spec, err := s.Specs.Spec(ctx, who.TenantID, m.AgentID, 0)
	if err != nil {
		return nil, err
	}
	answer, err := s.answerOf(ctx, m, spec, taskID, events)
	if err != nil {
		return nil, err
	}
	out, runaway := &Receipt{}, &Receipt{Abort: true, Reason: "The task has reported too much, and its run was ended."}
	answering := txn.WithAnswer(ctx, func() any { return out })
	err = s.runs.Report(answering, who.TenantID, taskID, func(p *run.Report) error {
		out = &Receipt{Success: true, Received: len(events)}
		var bytes int64
		for i := range events {
			bytes += events[i].size()
		}
		now, err := s.Store.CountTx(p.Tx(), who.TenantID, taskID, int64(len(events)), bytes)
		if err != nil {
			return err
		}
		if now.Events > maxTaskCount || now.Bytes > maxTaskBytes {
			out = runaway
			return p.End(run.Failed, run.CodeMachineRunaway, fmt.Sprintf(
				"The machine reported more than %d events or %d MiB on the task, and was told to stop.", maxTaskCount, maxTaskBytes>>20))
		}
		out.Stored, err = s.take(p, m, spec, taskID, events, answer)
		return err
	})
	switch {
	case errors.Is(err, run.ErrOver):
		return &Receipt{Abort: true, Reason: "The run has ended."}, nil
	case err != nil:
		return nil, err
	case out == runaway:
		return out, nil
	}
	return out, s.touch(txn.WithoutRequestHook(ctx), m)
}

// taskMachine returns the caller's machine that has a task; over says why the task has
// ended.
func (s *Service) taskMachine(ctx context.Context, who authz.Caller, taskID string) (m *Machine, over string, err error) {
	if !ident.Valid(taskID) {
		return nil, "", fault.NewNotFound("task")
	}
	if err := byKey(who); err != nil {
		return nil, "", err
	}
	var agentID string
	task, err := s.Store.GetTask(ctx, who.TenantID, taskID)
	switch {
	case err == nil:
		agentID = task.AgentID
	case fault.Is(err, fault.NotFound):
		r, err := s.runs.Get(ctx, who.TenantID, taskID)
		if fault.Is(err, fault.NotFound) || err == nil && !r.Status.Final() {
			return nil, "", fault.NewNotFound("task")
		}
		if err != nil {
			return nil, "", err
		}
		agentID, over = r.AgentID, "The run has ended: it is "+string(r.Status)+"."
	default:
		return nil, "", err
	}
	m, err = s.machineOf(ctx, who, agentID)
	if fault.Is(err, fault.NotFound) {
		return nil, "", fault.NewNotFound("task")
	}
	return m, over, err
}

// answerOf returns the checked answer of a task that the events end well; nil if they do
// not.
func (s *Service) answerOf(ctx context.Context, m *Machine, spec *run.AgentSpec, taskID string, events []Event) (*answer, error) {
	for i := range events {
		e := &events[i]
		if ends, well := e.ends(); !ends || !well {
			continue
		}
		before, err := s.runs.StreamedText(ctx, m.TenantID, taskID)
		if err != nil {
			return nil, err
		}
		a := &answer{text: before.Text, streamed: before.Streamed && !guarded(spec)}
		for j := range events[:i] {
			known, err := s.Store.HasEvent(ctx, m.TenantID, taskID, events[j].key())
			if err != nil {
				return nil, err
			}
			switch kind := events[j].Type; {
			case known: // it is in the text already
			case kind == "tool_call":
				a.text, a.streamed = "", false
			case kind == "content" || kind == "text":
				a.text += events[j].Content
				a.streamed = a.text != "" && !guarded(spec)
			}
		}
		if whole := cmp.Or(e.Output, e.Content); whole != "" {
			a.streamed = a.streamed && a.text == whole
			a.text = whole
		}
		a.text = cmp.Or(a.text, e.Message)
		subject := policy.Run{TenantID: m.TenantID, RunID: taskID, AgentID: m.AgentID, Guardrails: []byte(spec.Guardrails)}
		verdict, err := s.Gate.BeforeAnswer(ctx, subject, a.text)
		if err != nil {
			return nil, err
		}
		if a.refused = ""; verdict.Refused {
			a.refused = cmp.Or(verdict.Reason, "A guardrail blocked the answer.")
		} else if verdict.Changed {
			a.text, a.streamed = verdict.Text, false
		}
		return a, nil
	}
	return nil, nil
}

// guarded reports whether an agent has guardrails of its own: what its machine writes is
// then not shown before all of it is checked.
func guarded(spec *run.AgentSpec) bool {
	text := string(spec.Guardrails)
	return text != "" && text != "null" && text != "{}"
}

// answer is what a machine answers, as the guardrails left it.
type answer struct {
	text     string
	streamed bool
	refused  string // why a guardrail blocks it; "": none does
}

// take applies the events that are new, up to the one that ends the task.
func (s *Service) take(p *run.Report, m *Machine, spec *run.AgentSpec, taskID string, events []Event, a *answer) (stored int, err error) {
	for i := range events {
		fresh, err := s.Store.AddEventTx(p.Tx(), m.TenantID, taskID, events[i].key())
		if err != nil {
			return 0, err
		}
		if !fresh {
			continue
		}
		stored++
		if err := s.apply(p, m, spec, taskID, &events[i], a); err != nil {
			return 0, inEvent(err, i)
		}
		if p.Over() {
			break
		}
	}
	return stored, nil
}

// inEvent says in which event of a report a field is wrong.
func inEvent(err error, i int) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || len(f.Fields) == 0 {
		return err
	}
	var fields []fault.Field
	for _, field := range f.Fields {
		fields = append(fields, field.Under(fmt.Sprintf("[%d]", i)))
	}
	return fault.BadFields(fields...)
}

// apply maps an event to the run.
func (s *Service) apply(p *run.Report, m *Machine, spec *run.AgentSpec, taskID string, e *Event, a *answer) error {
	if ends, well := e.ends(); ends {
		switch {
		case !well:
			why := cmp.Or(e.Error, e.Message, "The machine reported that the task failed.")
			return p.End(run.Failed, cmp.Or(e.Code, run.CodeMachineFailed), why)
		case a.refused != "":
			return p.End(run.GuardrailBlocked, run.CodeGuardrailBlocked, a.refused)
		}
		return p.Complete(a.text, a.streamed)
	}
	switch e.Type {
	case "content", "text", "thinking":
		if guarded(spec) {
			return nil
		}
		return p.Text(cmp.Or(e.Content, e.Message), e.Type == "thinking")
	case "tool_call":
		return p.ToolCall(callID(taskID, e), cmp.Or(e.ToolName, "unknown"), e.ToolArgs)
	case "tool_result":
		failed := e.Error != "" || e.Status == "failed"
		return p.ToolResult(callID(taskID, e), cmp.Or(e.ToolName, "unknown"), cmp.Or(e.ToolResult, e.Content, e.Error), failed)
	case "metrics":
		return s.applyMetrics(p, e)
	case "approval_request", "approval_required":
		if e.ApprovalID == "" {
			return fault.BadFields(fault.Field{Field: "approval_id", Message: "is required of an approval_request"})
		}
		return p.AskApproval(run.MachineApproval{
			ApprovalID: approvalOf(taskID, e.ApprovalID), ToolCallID: callID(taskID, e), ToolName: cmp.Or(e.ToolName, "unknown"),
			Arguments: e.ToolArgs, Lasts: spec.ApprovalTimeout,
		})
	case "capability_report":
		return s.applyCapabilities(p.Tx(), m, e)
	case "status", "started", "step", "busy", "cancelled", "escalation", "approval_denied", "error":
		return p.Status(run.MachineStatusData{Status: cmp.Or(e.Status, e.Type), Message: cmp.Or(e.Message, e.Error, e.Content)})
	}
	return nil
}

func callID(taskID string, e *Event) string {
	return cmp.Or(e.ToolCallID, e.ApprovalID, ident.Derive(taskID, "call", e.ToolName))
}

func (s *Service) applyMetrics(p *run.Report, e *Event) error {
	var counted struct {
		ToolCalls  int64 `json:"tool_calls_count"`
		ModelCalls int64 `json:"llm_calls"`
		Input      int64 `json:"input_tokens"`
		Output     int64 `json:"output_tokens"`
	}
	if len(e.Metrics) > 0 && json.Unmarshal(e.Metrics, &counted) != nil {
		return fault.BadFields(fault.Field{Field: "metrics", Message: "tool_calls_count, llm_calls, input_tokens and output_tokens are integers"})
	}
	return p.Metrics(e.Metrics, run.MachineCounts{
		ModelCalls: counted.ModelCalls, ToolCalls: counted.ToolCalls,
		InputTokens: max(counted.Input, e.Input), OutputTokens: max(counted.Output, e.OutputTok),
	})
}

func (s *Service) applyCapabilities(tx txn.Tx, m *Machine, e *Event) error {
	locked, err := s.Store.LockMachineTx(tx, m.TenantID, m.MachineID)
	if err != nil {
		return err
	}
	if e.Capabilities != nil {
		locked.Facts.Capabilities = e.Capabilities
	}
	locked.Facts.WorkingDirectory = cmp.Or(e.WorkingDirectory, locked.Facts.WorkingDirectory)
	locked.Facts.Hostname = cmp.Or(e.Hostname, locked.Facts.Hostname)
	return s.Store.UpdateMachineTx(tx, locked)
}
