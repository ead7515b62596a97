// Package run defines runs: their states and the transitions between them,
// input, output and limits, the journal of steps, and the operations that
// callers have on them. The engine drives runs; this package knows no engine.
//
// A [Request] is what a caller wants to have run. A [Run] is what callers see of
// it, a [Record] what the platform stores of it. A step that was begun is a
// [PendingStep] of the record until its result is a [Step] of the journal.
package run

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/tool"
)

// Run is one execution of an agent, as callers see it.
type Run struct {
	RunID          string          `json:"run_id" format:"uuid" required:"true"`
	TenantID       string          `json:"tenant_id" required:"true"`
	AgentID        string          `json:"agent_id" format:"uuid" required:"true"`
	SessionID      *string         `json:"session_id" format:"uuid" doc:"Session that the run belongs to."`
	Status         Status          `json:"status" enum:"queued,running,completed,failed,cancelled,timeout,guardrail_blocked,paused,awaiting_approval,auth_required,rejected" required:"true"`
	Input          schema.Object   `json:"input,omitzero" doc:"Not in summaries."`
	Output         schema.Nullable `json:"output" doc:"The result: text, and truncated if a limit cut it off. Null until the run ends, and in summaries."`
	Metrics        Metrics         `json:"metrics"`
	Error          *string         `json:"error" doc:"Why the run did not complete, in one sentence."`
	ErrorCode      string          `json:"error_code,omitzero" doc:"Stable code of the error."`
	CreatedAt      time.Time       `json:"created_at" required:"true"`
	StartedAt      *time.Time      `json:"started_at"`
	CompletedAt    *time.Time      `json:"completed_at"`
	TeamRunID      *string         `json:"team_run_id" format:"uuid"`
	Metadata       schema.Object   `json:"metadata,omitzero" doc:"Not in summaries."`
	StepSeq        int64           `json:"step_seq" doc:"Number of the current or last step."`
	Artifacts      []Artifact      `json:"artifacts"`
	ResourceLimits Limits          `json:"resource_limits"`
	AgentVersion   int64           `json:"agent_version,omitzero" doc:"Version of the agent that the run uses."`

	PendingApprovals []PendingApproval `json:"pending_approvals,omitzero" doc:"Tool calls that wait for approval. In lists only with fields=summary, without arguments."`
	Approvals        []Approval        `json:"approvals,omitzero" doc:"Decided approvals, oldest first. Not in lists."`
	PendingInput     *PendingInput     `json:"pending_input,omitzero" doc:"The question that the run waits for an answer to."`
	PendingAuth      *PendingAuth      `json:"pending_auth,omitzero" doc:"The authorization that the run waits for."`

	WaitingFor    WaitReason `json:"waiting_for,omitzero" enum:"model,provider_limit,child_runs,machine" doc:"What a running run waits for without a worker. model: an endpoint that is down or overloaded. provider_limit: the provider's limit of calls or tokens is reached. child_runs: runs that its tool calls started. machine: the machine of its agent, which carries the run."`
	NextAttemptAt *time.Time `json:"next_attempt_at,omitzero" doc:"When the step that waits is tried again, at the latest."`
	Attempts      int        `json:"attempts,omitzero" doc:"Failed attempts of the step that waits."`

	ContinuesRunID   string  `json:"continues_run_id,omitzero" format:"uuid" doc:"The run that this one continues."`
	ForkedFromRunID  string  `json:"forked_from_run_id,omitzero" format:"uuid" doc:"The run that this one was forked from."`
	ContinuedByRunID *string `json:"continued_by_run_id,omitzero" format:"uuid" doc:"The run that continues this one after it failed."`

	StartedBy    *Initiator `json:"started_by" doc:"Who or what started the run; null for runs of versions that did not store it."`
	ParentRunID  *string    `json:"parent_run_id" format:"uuid" doc:"The run that started this one."`
	ParentStepID *string    `json:"parent_step_id" format:"uuid" doc:"The step of the parent that started this run."`
	RootRunID    *string    `json:"root_run_id" format:"uuid" doc:"The run that the family of runs began with; null for that run itself."`

	Outcome     *Outcome `json:"outcome,omitzero" doc:"What became of the outcome that the run was to reach; absent where it has no rubric."`
	LastEventID string   `json:"last_event_id,omitzero" doc:"The event up to which this is the state: follow the stream of events after it. Not in lists."`

	AgentName     string `json:"agent_name,omitzero" doc:"Only in summaries."`
	InputPreview  string `json:"input_preview,omitzero" doc:"Beginning of the message, 200 characters. Only in summaries."`
	OutputPreview string `json:"output_preview,omitzero" doc:"Beginning of the result's text, 200 characters. Only in summaries."`
}

// Artifact is a file that a run produced.
type Artifact struct {
	ArtifactID string    `json:"artifact_id" format:"uuid" required:"true"`
	RunID      string    `json:"run_id" format:"uuid" required:"true"`
	TenantID   string    `json:"tenant_id"`
	Name       string    `json:"name" required:"true"`
	MimeType   string    `json:"mime_type" required:"true"`
	SizeBytes  int64     `json:"size_bytes" required:"true"`
	StorageRef string    `json:"storage_ref"`
	CreatedAt  time.Time `json:"created_at" required:"true"`
}

// Record is a run as it is stored: with what only the platform needs.
type Record struct {
	Run
	EventSeq int64         // seq of the last event that was committed
	Options  Options       // how the model is called
	Parsed   *Input        // Input as a value, if the creator had it; not stored
	Admit    Admission     // decides when the run may begin; not stored
	Pending  []PendingStep // steps that were begun and have no result yet
	Wait     Wait          // what it waits for, or has waited for
}

// Options set how the model is called in one run.
type Options struct {
	Plain       bool           `json:"plain,omitzero"` // the answer is published whole, not in chunks
	Temperature *float64       `json:"temperature,omitzero"`
	TopP        *float64       `json:"top_p,omitzero"`
	MaxTokens   int            `json:"max_tokens,omitzero"`
	Stop        []string       `json:"stop,omitzero"`
	Tools       []CallerTool   `json:"tools,omitzero"`
	ToolChoice  jsontext.Value `json:"tool_choice,omitzero"`
	// Extra are further fields for every model call, as endpoints name them:
	// response_format, seed, reasoning_effort …
	Extra   map[string]jsontext.Value `json:"extra,omitzero"`
	NoCache bool                      `json:"no_cache,omitzero"` // no key of a cache is sent
	// Model replaces the agent's, if the session sets one.
	Model *model.Spec `json:"model,omitzero"`
	// Continues is the id of the truncated run that this one continues.
	Continues string `json:"continues,omitzero"`
	// Inherits is the id of the run that failed, and whose steps this one begins with.
	Inherits string `json:"inherits,omitzero"`
	// ForkOf is the id of the run that this one was forked from, whose earlier turns it
	// follows too.
	ForkOf string `json:"fork_of,omitzero"`
	// Follows is the id of the response that is this run's history; see package
	// responsechain.
	Follows string `json:"follows,omitzero"`
	// Budgets are the ids of the budgets that the run spends from: its own, and
	// those of the run that started it.
	Budgets []string `json:"budgets,omitzero"`
	// Lenient are those of Budgets that nobody asked for: they do not bind a model
	// without a price.
	Lenient []string `json:"lenient,omitzero"`
	// WorkspaceID is where the file tools work; "": in the agent's workspace.
	WorkspaceID string `json:"workspace_id,omitzero"`
	// KeyID is the API key that started the run, whose use is counted; "": the run
	// was started from a browser session, or by the platform.
	KeyID string `json:"key_id,omitzero"`
	// Sources are the untrusted sources that the run has content of when it begins, from
	// what started it.
	Sources []string `json:"sources,omitzero"`
	// Grants are tools that the run has beside those of its agent.
	Grants []string `json:"grants,omitzero"`
	// KnowledgeBases are ids of bases that the run searches beside those of its agent.
	KnowledgeBases []string `json:"knowledge_bases,omitzero"`
	// Wakes is the work that becomes due in the commit with which the run ends; nil
	// for none.
	Wakes *Wakes `json:"wakes,omitzero"`
	// Sandbox makes the run a test of a change of its agent; nil: it is not one.
	Sandbox *Sandbox      `json:"sandbox,omitzero"`
	Outcome *judge.Rubric `json:"outcome,omitzero"` // that it is to reach; nil: it ends with its first answer
	Visitor bool          `json:"visitor,omitzero"` // it answers a stranger; see AgentSpec.ForVisitors
	// OnMachine: the machine of the agent carries the run, and reports on it; see Report.
	OnMachine bool `json:"on_machine,omitzero"`
}

// apply sets the options that are not set.
func (o *Options) apply(s model.Settings) {
	if o.Temperature == nil {
		o.Temperature = s.Temperature
	}
	if o.TopP == nil {
		o.TopP = s.TopP
	}
	if o.MaxTokens == 0 && s.MaxOutputTokens != nil {
		o.MaxTokens = *s.MaxOutputTokens
	}
	if o.Stop == nil && s.Stop != nil {
		o.Stop = *s.Stop
	}
	o.NoCache = o.NoCache || s.PromptCache != nil && *s.PromptCache == "off"
	if fields := s.Fields(); len(fields) > 0 {
		maps.Copy(fields, o.Extra)
		o.Extra = fields
	}
}

// HasTool reports whether the caller brought a tool of that name.
func (o *Options) HasTool(name string) bool {
	return slices.ContainsFunc(o.Tools, func(t CallerTool) bool { return t.Name == name })
}

// CallerTool is a tool that the caller runs itself: when the model calls it,
// the run completes with the call in its output.
type CallerTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters,omitzero"`
	Strict      bool           `json:"strict,omitzero"` // arguments must match the schema
}

// Input has the keys of a run's input that the platform reads; further keys are
// the caller's own.
type Input struct {
	Message string `json:"message" doc:"Message to the agent; may be empty."`
	// Instructions are the caller's. They are sent with the message and do not
	// replace the agent's prompt.
	Instructions string           `json:"instructions,omitzero" doc:"The caller's instructions for this run, added to the agent's prompt."`
	History      []model.Message  `json:"history,omitzero" maxItems:"10000" doc:"Earlier turns of the conversation, oldest first."`
	Parts        []jsontext.Value `json:"parts,omitzero" maxItems:"1000" doc:"Content parts of a message that is more than text."`
	FileIDs      []string         `json:"file_ids,omitzero" maxItems:"20" doc:"Files that the model reads with the message, until they become its attachments."`
}

// Output of a completed run.
type Output struct {
	Text            string `json:"text"`
	Truncated       bool   `json:"truncated,omitzero"`        // a step, tool or token limit ended the run early
	OutputTruncated bool   `json:"output_truncated,omitzero"` // the model ran out of output tokens
	FinishReason    string `json:"finish_reason,omitzero"`
	// ContinuationToken is set if Truncated is; see Service.Continue.
	ContinuationToken string           `json:"continuation_token,omitzero"`
	ToolCalls         []model.ToolCall `json:"tool_calls,omitzero"` // calls of the caller's own tools
	// Sources are the untrusted sources that the run has read, itself or by what it
	// inherited; see model.Message.
	Sources []string `json:"sources,omitzero"`
	// Citations are the passages that the run's tools have found, at most 20.
	Citations []model.Citation `json:"citations,omitzero"`
}

// Limits bound a run. Nil is no limit; 0 allows none (rule D6-zero-limit).
type Limits struct {
	MaxDurationMS   *int64 `json:"max_duration_ms,omitzero" minimum:"0" doc:"Milliseconds of running time."`
	MaxSteps        *int64 `json:"max_steps,omitzero" minimum:"0" doc:"Steps of the run: model calls and tool calls. Default: 200."`
	MaxToolCalls    *int64 `json:"max_tool_calls,omitzero" minimum:"0" doc:"Tool calls of the run. Default: no limit."`
	MaxTokensPerRun *int64 `json:"max_tokens_per_run,omitzero" minimum:"0" doc:"Tokens read and written. Default: no limit."`
	// MaxCostUSD of 0 is no cap.
	MaxCostUSD *float64 `json:"max_cost_usd,omitzero" minimum:"0" doc:"US dollars for model calls, by the catalogue's prices; 0: no cap. A call is made only if the rest pays for it."`
}

// Narrow returns the smaller of each limit.
func (l Limits) Narrow(other Limits) Limits {
	return Limits{
		minLimit(l.MaxDurationMS, other.MaxDurationMS), minLimit(l.MaxSteps, other.MaxSteps),
		minLimit(l.MaxToolCalls, other.MaxToolCalls), minLimit(l.MaxTokensPerRun, other.MaxTokensPerRun),
		minLimit(capped(l.MaxCostUSD), capped(other.MaxCostUSD)),
	}
}

func minLimit[N int64 | float64](a, b *N) *N {
	if a == nil || (b != nil && *b < *a) {
		return b
	}
	return a
}

func capped(usd *float64) *float64 {
	if usd == nil || *usd <= 0 {
		return nil
	}
	return usd
}

// Metrics of a run. DurationMS is running time over all attempts, without
// queueing and waiting.
type Metrics struct {
	_ struct{} `json:"-" name:"RunMetrics"`

	DurationMS          float64  `json:"duration_ms"`
	StepsCount          int64    `json:"steps_count"`
	InputTokens         int64    `json:"input_tokens"`
	OutputTokens        int64    `json:"output_tokens"`
	ThinkingTokens      int64    `json:"thinking_tokens"`
	CachedTokens        int64    `json:"cached_tokens" doc:"Part of input_tokens that the provider had in a cache."`
	CacheWriteTokens    int64    `json:"cache_write_tokens" doc:"Part of input_tokens that the provider stored in a cache."`
	ToolCallsCount      int64    `json:"tool_calls_count"`
	LLMCallsCount       int64    `json:"llm_calls_count"`
	GuardrailChecks     int64    `json:"guardrail_checks"`
	GuardrailViolations int64    `json:"guardrail_violations"`
	MemoryRetrievals    int64    `json:"memory_retrievals"`
	MemoryExtractions   int64    `json:"memory_extractions"`
	TotalCostUSD        *float64 `json:"total_cost_usd" doc:"An estimate from the configured prices; null where a price is unknown."`
}

// StepType is what a step did.
type StepType string

// The types of steps.
const (
	StepLLM        StepType = "llm"
	StepTool       StepType = "tool"
	StepInput      StepType = "input"      // a note from the caller who resumed the run
	StepGuardrail  StepType = "guardrail"  // the check of the run's message
	StepMemory     StepType = "memory"     // what the agent remembered at the start
	StepCompaction StepType = "compaction" // a summary replaces earlier messages
	StepJudge      StepType = "judge"      // the verdict about an answer, by the run's rubric
)

// StepStatus is the state of a step.
type StepStatus string

// The states of a step.
const (
	StepRunning   StepStatus = "running"
	StepCompleted StepStatus = "completed"
	StepFailed    StepStatus = "failed"
)

// Step is one entry of a run's journal. Its result is committed before the next
// step begins.
type Step struct {
	_ struct{} `json:"-" name:"RunStep"`

	StepID      string          `json:"step_id" required:"true"`
	RunID       string          `json:"run_id" required:"true"`
	TenantID    string          `json:"tenant_id"`
	Seq         int64           `json:"seq" required:"true" doc:"From 1."`
	StepIndex   int64           `json:"step_index" doc:"The same, from 0."`
	Type        StepType        `json:"type" enum:"llm,tool,approval,input,guardrail,memory,compaction,judge" required:"true"`
	Status      StepStatus      `json:"status" enum:"running,completed,failed" required:"true"`
	StartedAt   time.Time       `json:"started_at"`
	CompletedAt *time.Time      `json:"completed_at"`
	DurationMS  float64         `json:"duration_ms"`
	Input       schema.Nullable `json:"input" doc:"Null in summaries."`
	Output      schema.Nullable `json:"output" doc:"Null in summaries."`
	Error       *string         `json:"error"`
	Metrics     schema.Nullable `json:"metrics"`
	ToolCalls   []string        `json:"tool_calls" doc:"Names of the tools that the step asked for."`
	Attempts    []StepAttempt   `json:"attempts,omitzero" doc:"Attempts that failed before the result, oldest first; the newest 20."`

	Name          string `json:"name,omitzero" doc:"Of the tool or the model. Only in summaries."`
	InputPreview  string `json:"input_preview,omitzero" doc:"Beginning of a tool's arguments, 200 characters. Only in summaries."`
	OutputPreview string `json:"output_preview,omitzero" doc:"Beginning of the answer or of the tool's result, 200 characters. Only in summaries."`

	ChildRunIDs   []string `json:"child_run_ids,omitzero" format:"uuid" doc:"Runs that the step started; at most 1,000 of the run's."`
	InheritedFrom *string  `json:"inherited_from,omitzero" format:"uuid" doc:"The run that made the step, if this one inherited it."`

	// CallOf is, for a step of type tool, the seq of the model's step that has the
	// call with the same arguments, so that a store keeps them only there. 0: none.
	// Readers get the whole Input, and 0.
	CallOf int64 `json:"-"`
	// Opaque is, for a step of type llm, what its endpoint wants back.
	Opaque *StepOpaque `json:"-"`
}

// LLMOutput is the output of a step of type llm.
type LLMOutput struct {
	Text         string           `json:"text"`
	Thinking     string           `json:"thinking,omitzero"`
	ToolCalls    []model.ToolCall `json:"tool_calls,omitzero"`
	FinishReason string           `json:"finish_reason"`
	Model        string           `json:"model,omitzero"`
	// Redacted are the ids of the calls whose arguments lack data that the tenant does not
	// store.
	Redacted []string  `json:"redacted,omitzero"`
	Warnings []Warning `json:"warnings,omitzero"`
}

// Warning is about a step that did its work otherwise than its caller asked for.
type Warning struct {
	Code      string `json:"code"` // parameter_dropped
	Parameter string `json:"parameter,omitzero"`
}

// WarningsOf returns the warnings of a model's answer.
func WarningsOf(r *model.Response) (all []Warning) {
	for _, name := range r.Dropped {
		all = append(all, Warning{Code: "parameter_dropped", Parameter: name})
	}
	return all
}

// CompactionInput is the input of a step of type compaction: which messages its
// summary replaces. These are the first Messages messages of the conversation
// as the model was about to read it, without system messages; an earlier
// summary counts as one message.
//
// To derive the conversation from steps, apply each completed step of this type
// with contextwindow.Apply, as Transcript.After does. The replaced messages stay
// in their steps; only the model does not read them again.
type CompactionInput struct {
	contextwindow.Compaction
	// Through is the origin of the newest replaced message: it and all before it
	// are replaced, except a request that was kept. Nil where no replaced message
	// has an origin. StepSeq 0 is the run's own message.
	Through  *model.Origin `json:"through,omitzero"`
	Tokens   int           `json:"tokens"`   // estimate, of the replaced messages
	Strategy string        `json:"strategy"` // compaction | summarize
}

// CompactionOutput is the output of a completed step of type compaction.
type CompactionOutput struct {
	Summary string   `json:"summary"`
	Tokens  int      `json:"tokens"` // estimate, of the conversation with the summary
	Model   string   `json:"model,omitzero"`
	Sources []string `json:"sources,omitzero"` // untrusted ones that the run had read by then
}

// StepMetrics are the metrics of one step.
type StepMetrics struct {
	InputTokens      int64    `json:"input_tokens"`
	OutputTokens     int64    `json:"output_tokens"`
	ThinkingTokens   int64    `json:"thinking_tokens"`
	CachedTokens     int64    `json:"cached_tokens"`
	CacheWriteTokens int64    `json:"cache_write_tokens"`
	LLMCalls         int64    `json:"llm_calls"`
	ToolCallsCount   int64    `json:"tool_calls_count"`
	CostUSD          *float64 `json:"cost_usd"`
	Estimated        bool     `json:"estimated,omitzero"`
}

// ToolInput is the input of a step of type tool: one call.
type ToolInput struct {
	ToolCallID string `json:"tool_call_id"`
	Name       string `json:"name"`
	Arguments  string `json:"arguments"`
	ApprovalID string `json:"approval_id,omitzero"` // the approval that allowed the call
	Redacted   bool   `json:"redacted,omitzero"`    // the arguments lack data that the tenant does not store
}

// ArgumentsJSON returns the arguments of a model's call as JSON, or as a JSON
// string where the model wrote no valid JSON.
func ArgumentsJSON(s string) jsontext.Value {
	v := jsontext.Value(s)
	if v.IsValid() && v.Compact() == nil {
		return v
	}
	quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	return quoted
}

// ToolOutput is the output of a step of type tool: what the model gets.
type ToolOutput struct {
	Content string `json:"content"`
	IsError bool   `json:"is_error,omitzero"`

	Artifacts []string `json:"artifacts,omitzero"` // ids of the files that the call produced
	// Rulings are the rules of the company that judged the call, with their decisions.
	Rulings []policy.Finding `json:"rulings,omitzero"`
	// Sources are the untrusted sources that the result has content of.
	Sources []string `json:"sources,omitzero"`
	// Citations are the passages of documents that the result has.
	Citations []model.Citation `json:"citations,omitzero"`
}

// PendingStep is a step that was begun and has no result. After a crash it shows
// which tool calls may have happened without leaving a result.
type PendingStep struct {
	StepID    string     `json:"step_id"`
	Seq       int64      `json:"seq"`
	Type      StepType   `json:"type"`
	StartedAt time.Time  `json:"started_at"`
	Tool      *ToolInput `json:"tool,omitzero"`
	Held      bool       `json:"held,omitzero"`     // the run paused before the step did anything
	Reserved  int64      `json:"reserved,omitzero"` // from the run's budgets for a model call, in billionths of a dollar

	Attempts    []StepAttempt `json:"attempts,omitzero"`     // the newest that failed, at most MaxAttemptsKept
	Failed      int           `json:"failed,omitzero"`       // attempts that failed for a reason that passes
	FailedSince time.Time     `json:"failed_since,omitzero"` // when the first of them failed

	Deaths int  `json:"deaths,omitzero"` // how often the process died while the step was under way
	Alone  bool `json:"alone,omitzero"`  // in its last try no other step that may kill was under way
	Killed bool `json:"killed,omitzero"` // it kills the process, and is not tried again

	Judge *JudgeInput `json:"judge,omitzero"` // of a step of type judge
	// Awaits is the run that a tool call waits for, and Rulings what the rules said
	// of the call when it was made.
	Awaits  *tool.Await      `json:"awaits,omitzero"`
	Rulings []policy.Finding `json:"rulings,omitzero"`
}

// Ref returns the reference to the step.
func (p *PendingStep) Ref() StepRef { return StepRef{p.StepID, p.Seq} }

// Abandoned returns a step of type llm as it ends without another attempt.
func (p *PendingStep) Abandoned() *Step {
	s := &Step{
		StepID: p.StepID, Seq: p.Seq, Type: p.Type, Status: StepFailed, StartedAt: p.StartedAt, Attempts: p.Attempts,
		Output: schema.Nullable(`{"text":"","finish_reason":"error"}`),
	}
	if n := len(p.Attempts); n > 0 {
		s.Error = &p.Attempts[n-1].Error
	}
	return s
}

// StepAttempt is an attempt of a step that failed for a reason that passes.
type StepAttempt struct {
	At    time.Time `json:"at" required:"true" doc:"When it failed."`
	Error string    `json:"error" required:"true" doc:"Why, in one sentence."`
}

// MaxAttemptsKept is how many failed attempts a step lists.
const MaxAttemptsKept = 20

// Fail adds an attempt that failed for a reason that passes.
func (p *PendingStep) Fail(at time.Time, sentence string) {
	if p.Failed == 0 {
		p.FailedSince = at
	}
	p.Failed++
	p.Note(at, sentence)
}

// FailedAttempts returns how many attempts failed, also those that ended with their
// process.
func (p *PendingStep) FailedAttempts() int { return p.Failed + p.Deaths }

// Note adds an attempt to those that are listed, and does not count it.
func (p *PendingStep) Note(at time.Time, sentence string) {
	p.Attempts = append(p.Attempts, StepAttempt{at, sentence})
	if extra := len(p.Attempts) - MaxAttemptsKept; extra > 0 {
		p.Attempts = slices.Clone(p.Attempts[extra:])
	}
}
