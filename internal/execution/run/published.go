package run

import (
	"reflect"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

// Types of the published events of a run. What is sent is written by encoder and,
// for the fields of a single event, by the code that emits it; a test of the whole
// program compares the two (rule X-events-published).
type (
	eventCommon struct {
		RunID      string    `json:"run_id" format:"uuid" doc:"The run."`
		Seq        int64     `json:"seq,omitzero" doc:"Position in the run, from 1; grows, with holes. Absent from events that are not stored."`
		Timestamp  time.Time `json:"timestamp" doc:"When it happened."`
		StreamType string    `json:"stream_type" enum:"lifecycle,assistant,tool,other" doc:"Kind of the event, to filter by."`
		SessionID  string    `json:"session_id,omitzero" format:"uuid" doc:"The run's session, if it has one."`
	}
	statusEvent struct {
		Status Status `json:"status" enum:"queued,running,completed,cancelled,paused,awaiting_approval" doc:"The run's status."`
	}
	startedEvent struct {
		Status  Status `json:"status" enum:"running" doc:"The run's status."`
		Attempt int    `json:"attempt,omitzero" doc:"Number of the worker's attempt, from 1."`
	}
	pausedEvent struct {
		Status Status `json:"status" enum:"paused" doc:"The run's status."`
		Reason string `json:"reason" enum:"manual,input" doc:"Paused by a person, or waiting for input."`
	}
	authEvent struct {
		Status Status `json:"status" enum:"auth_required" doc:"The run's status."`
		PendingAuth
	}
	endEvent struct {
		Status    Status  `json:"status" enum:"completed,failed,cancelled,timeout,guardrail_blocked,rejected" doc:"The run's final status."`
		Error     *string `json:"error,omitzero" doc:"Why the run did not complete."`
		ErrorCode string  `json:"error_code,omitzero" doc:"Stable code of the error."`
	}
	textEvent struct {
		Text    string `json:"text" doc:"The next piece of text."`
		Payload struct {
			Delta string `json:"delta" doc:"The text again."`
		} `json:"payload" doc:"The text again, for clients that read it here."`
		StepRef
	}
	toolCallEvent struct {
		StepRef
		ToolCallID string         `json:"tool_call_id" doc:"The call."`
		Name       string         `json:"name" doc:"The tool."`
		Arguments  jsontext.Value `json:"arguments" doc:"Arguments of the call."`
	}
	toolResultEvent struct {
		StepRef
		ToolCallID string         `json:"tool_call_id" doc:"The call."`
		Name       string         `json:"name" doc:"The tool."`
		Status     string         `json:"status" doc:"How the call ended."`
		DurationMS float64        `json:"duration_ms,omitzero" doc:"Duration in milliseconds."`
		Output     jsontext.Value `json:"output" doc:"What the tool returned."`
	}
	approvalRequestedEvent struct {
		ApprovalID string         `json:"approval_id" format:"uuid" doc:"The approval."`
		ToolCallID string         `json:"tool_call_id" doc:"The call that waits."`
		Name       string         `json:"name" doc:"The tool."`
		Arguments  jsontext.Value `json:"arguments" doc:"Arguments of the call."`
		ExpiresAt  time.Time      `json:"expires_at" doc:"When the approval expires."`
	}
	approvalResolvedEvent struct {
		ApprovalID string         `json:"approval_id" format:"uuid" doc:"The approval."`
		ToolCallID string         `json:"tool_call_id" doc:"The call that waited."`
		Name       string         `json:"name" doc:"The tool."`
		Status     ApprovalStatus `json:"status" enum:"approved,rejected,expired,cancelled" doc:"The decision."`
		DecidedBy  string         `json:"decided_by,omitzero" doc:"User who decided."`
		Reason     string         `json:"reason,omitzero" doc:"Reason that was given."`
		Edited     bool           `json:"edited,omitzero" doc:"The arguments were changed."`
	}
	inputReceivedEvent struct {
		InputID  string `json:"input_id" format:"uuid" doc:"The question."`
		Response string `json:"response" doc:"The answer."`
	}
	memoryRetrievedEvent struct {
		StepRef
		Entries []RecalledEntry `json:"entries" doc:"Memory entries that were given to the model."`
	}
	compactedEvent struct {
		StepRef
		Folded       int `json:"folded" doc:"Messages that the summary replaced."`
		BeforeTokens int `json:"before_tokens" doc:"Tokens of those messages."`
		AfterTokens  int `json:"after_tokens" doc:"Tokens of the summary."`
	}
	guardrailEvent struct {
		StepRef
		GuardrailID string `json:"guardrail_id" doc:"The guardrail."`
		Name        string `json:"name" doc:"Its name."`
		Stage       string `json:"stage" doc:"Where it was checked."`
		Action      string `json:"action" doc:"What it did."`
		Reason      string `json:"reason,omitzero" doc:"What it found, without the text."`
	}
	rulingEvent struct {
		StepRef
		ToolCallID string `json:"tool_call_id,omitzero" doc:"The call that was judged; absent for calls of models."`
		RuleID     string `json:"rule_id" doc:"The rule of the constitution."`
		Severity   string `json:"severity" doc:"Its severity: info, warning, error or blocker."`
		Action     string `json:"action" doc:"The act that it judged, such as tool:send_mail."`
		Decision   string `json:"decision" doc:"What it made of the act: log, warn, require_approval, block or terminate_agent."`
		Message    string `json:"message" doc:"Why, as the rule says it."`
		Shadow     bool   `json:"shadow,omitzero" doc:"Whether the rule is only recorded."`
	}
	gapEvent struct {
		Dropped int `json:"dropped" doc:"Text events that were dropped; 0 if the id to resume after was unknown and the stream starts over."`
	}
	failureData struct {
		Event  string `json:"event"`
		RunID  string `json:"run_id" format:"uuid" doc:"The run."`
		Code   string `json:"code" doc:"Stable code of the error."`
		Detail string `json:"detail" doc:"What to do, for a person."`
	}
	doneEvent struct {
		RunID     string          `json:"run_id" format:"uuid" doc:"The run."`
		Status    Status          `json:"status" enum:"completed,failed,cancelled,timeout,guardrail_blocked,rejected" doc:"The run's final status."`
		Output    schema.Nullable `json:"output" doc:"Output of the run."`
		Metrics   Metrics         `json:"metrics" doc:"What the run used."`
		CostUSD   *float64        `json:"cost_usd" doc:"Cost of the run, null if it is unknown."`
		Error     *string         `json:"error,omitzero" doc:"Why the run did not complete."`
		ErrorCode string          `json:"error_code,omitzero" doc:"Stable code of the error."`
		Outcome   *Outcome        `json:"outcome,omitzero" doc:"What became of the outcome that the run was to reach; absent where it has no rubric."`
	}
)

// Events are the published events of a run.
var Events = route.Events{
	Name: "RunEvent", Tag: "event", Common: reflect.TypeFor[eventCommon](),
	Of: []route.Event{
		{Name: "run.queued", Data: reflect.TypeFor[statusEvent](), Doc: "The run waits for a worker."},
		{Name: "run.started", Data: reflect.TypeFor[startedEvent](), Doc: "The run started."},
		{Name: "run.resumed", Data: reflect.TypeFor[startedEvent](), Doc: "The run continues after a wait, or on another worker."},
		{Name: "run.paused", Data: reflect.TypeFor[pausedEvent](), Doc: "The run is paused."},
		{Name: "run.awaiting_approval", Data: reflect.TypeFor[statusEvent](), Doc: "The run waits for approvals."},
		{Name: "run.auth_required", Data: reflect.TypeFor[authEvent](), Doc: "The run waits until a person authorizes a tool."},
		{Name: "run.completed", Data: reflect.TypeFor[endEvent](), Doc: "The run completed."},
		{Name: "run.failed", Data: reflect.TypeFor[endEvent](), Doc: "The run failed."},
		{Name: "run.cancelled", Data: reflect.TypeFor[endEvent](), Doc: "The run was cancelled."},
		{Name: "run.timeout", Data: reflect.TypeFor[endEvent](), Doc: "The run took too long."},
		{Name: "run.guardrail_blocked", Data: reflect.TypeFor[endEvent](), Doc: "A guardrail blocked the run."},
		{Name: "run.rejected", Data: reflect.TypeFor[endEvent](), Doc: "An approval was rejected."},
		{Name: "step.started", Data: reflect.TypeFor[StepStartedData](), Doc: "A step started."},
		{Name: "step.retrying", Data: reflect.TypeFor[StepRetryingData](), Doc: "The model is down; the step is tried again later."},
		{Name: "step.draft_void", Data: reflect.TypeFor[DraftVoidData](), Doc: "The text of the step so far is void."},
		{Name: "step.completed", Data: reflect.TypeFor[StepCompletedData](), Doc: "A step ended."},
		{Name: "llm.chunk", Data: reflect.TypeFor[textEvent](), Doc: "A piece of the model's answer."},
		{Name: "llm.thinking", Data: reflect.TypeFor[textEvent](), Doc: "A piece of the model's reasoning."},
		{Name: "llm.completed", Data: reflect.TypeFor[LLMCompletedData](), Doc: "A call of the model ended."},
		{Name: "tool.call", Data: reflect.TypeFor[toolCallEvent](), Doc: "A tool is called."},
		{Name: "tool.result", Data: reflect.TypeFor[toolResultEvent](), Doc: "A tool call ended."},
		{Name: "approval.requested", Data: reflect.TypeFor[approvalRequestedEvent](), Doc: "A tool call waits for approval."},
		{Name: "approval.resolved", Data: reflect.TypeFor[approvalResolvedEvent](), Doc: "An approval was decided, or expired."},
		{Name: "input.requested", Data: reflect.TypeFor[PendingInput](), Doc: "The run asks a person a question."},
		{Name: "input.received", Data: reflect.TypeFor[inputReceivedEvent](), Doc: "The question was answered."},
		{Name: "memory.retrieved", Data: reflect.TypeFor[memoryRetrievedEvent](), Doc: "Memory was searched for the run."},
		{Name: "context.compacted", Data: reflect.TypeFor[compactedEvent](), Doc: "Older messages were replaced by a summary."},
		{Name: "outcome.judged", Data: reflect.TypeFor[OutcomeJudgedData](), Doc: "A judge scored an answer by the run's rubric."},
		{Name: "guardrail.violated", Data: reflect.TypeFor[guardrailEvent](), Doc: "A guardrail found something."},
		{Name: "governance.decided", Data: reflect.TypeFor[rulingEvent](), Doc: "A rule of the company judged an act."},
		{Name: "machine.status", Data: reflect.TypeFor[MachineStatusData](), Doc: "What the machine that carries the run says of it."},
		{Name: "machine.metrics", Data: reflect.TypeFor[MachineMetricsData](), Doc: "What the machine that carries the run has counted so far."},
		{Name: "gap", Data: reflect.TypeFor[gapEvent](), Doc: "Events are missing: the client was slow, or resumed after an unknown id."},
		{Name: "error", Data: reflect.TypeFor[failureData](), Doc: "The stream cannot continue; reconnect with the last id.", Bare: true},
		{Name: "done", Data: reflect.TypeFor[doneEvent](), Doc: "The run has ended; on a run's own stream a bare [DONE] follows.", Bare: true},
	},
}
