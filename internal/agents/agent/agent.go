// Package agent is what agents are: configured AI workers, their states and
// the versions of their configuration.
package agent

import (
	"time"

	"agentd/internal/base/schema"
	"agentd/internal/kernel/resource"
)

// Agent is an agent as it is stored and shown.
type Agent struct {
	resource.Meta `json:"-"`
	Config

	// VersionNo is the number of the newest recorded version, "12".
	VersionNo        string     `json:"version" readOnly:"true" doc:"Number of the newest version of the configuration."`
	Status           string     `json:"status" readOnly:"true" enum:"active,suspended" doc:"A suspended agent takes no new runs."`
	StatusChangedAt  *time.Time `json:"status_changed_at,omitzero" readOnly:"true"`
	StatusReason     string     `json:"status_reason,omitzero" readOnly:"true" doc:"Why it is suspended, as the caller said."`
	StatusReasonCode string     `json:"status_reason_code,omitzero" readOnly:"true" doc:"Who suspended it: manual is a caller."`

	// Changelog names the version that the update at hand records. It is not
	// stored with the agent.
	Changelog string `json:"-"`
}

// The states. A new agent is active.
const (
	Active    = "active"
	Suspended = "suspended"
)

// Config is what a client configures, and what versions record. Free objects
// are kept as they came; the parts that act on them know their shapes.
type Config struct {
	Name         string          `json:"name" required:"true" minLength:"1" maxLength:"200"`
	Description  string          `json:"description"`
	Model        ModelConfig     `json:"model" doc:"Which model it uses. Left out: the deployment's default model."`
	Fallback     *ModelConfig    `json:"fallback_model" doc:"Used where the model fails before it answered anything."`
	ModelRetry   *ModelRetry     `json:"model_retry" merge:"1" doc:"How long its runs wait for a model that is down or overloaded. Left out: 15 minutes."`
	Prompts      Prompts         `json:"prompts"`
	MCP          schema.Object   `json:"mcp" doc:"MCP servers and which of their tools and resources may be used: servers, allowed_tools, allowed_resources."`
	Policies     schema.Object   `json:"policies" doc:"Rules for its runs, such as rate_limits, approval_timeout_ms and cancel_on_disconnect."`
	Skills       []schema.Object `json:"skills" doc:"What it can do, for people and other agents to read."`
	Thinking     schema.Nullable `json:"thinking" doc:"How a reasoning model thinks: mode (adaptive or fixed), budget_tokens, effort (low, medium, high, max, or 0 to 100)."`
	EffortPolicy schema.Nullable `json:"effort_policy" doc:"The effort of each phase: plan, act, evaluate; each low, medium, high or max."`
	Limits       *Limits         `json:"resource_limits" merge:"1"`

	Memory                schema.Nullable `json:"memory" merge:"1" doc:"What it remembers between runs: enabled, types, max_entries, retrieval_strategy and more."`
	CoreMemory            schema.Nullable `json:"core_memory" merge:"1" doc:"Short texts that it always has in mind: enabled, and blocks with label, initial_content and max_tokens."`
	Guardrails            schema.Nullable `json:"guardrails" merge:"1" doc:"Checks of what goes in and out: input, output, built_in."`
	ApprovalRequiredTools []string        `json:"approval_required_tools" doc:"Tools whose calls wait for a person's approval."`
	BuiltInTools          []string        `json:"built_in_tools" doc:"Built-in tools that it may use."`
	ImageGeneration       schema.Nullable `json:"image_generation" merge:"1" doc:"Gives it the tool generate_image: provider and model, each of which may be left out."`
	KnowledgeBaseID       *string         `json:"knowledge_base_id"`

	ExecutionMode      string          `json:"execution_mode" enum:"async,worker" default:"async"`
	WorkerReuse        bool            `json:"worker_reuse"`
	Schedule           schema.Nullable `json:"schedule" merge:"1" doc:"When it runs by itself: cron, timezone, input and more."`
	A2A                schema.Nullable `json:"a2a" doc:"How it appears to agents of other systems: enabled, public, agent_card."`
	RiskClassification schema.Nullable `json:"risk_classification" doc:"Its class under the EU AI Act: level, annex_iii_category, justification and more."`
	WorkspaceID        *string         `json:"workspace_id"`
	ContextStrategy    string          `json:"context_strategy" enum:"compaction,summarize,truncate,sliding_window" default:"compaction" doc:"What happens to a conversation that outgrows the model's context."`
	ContextWindowSize  int             `json:"context_window_size" minimum:"1" default:"20" doc:"How many recent messages sliding_window keeps."`
	Metadata           schema.Object   `json:"metadata" merge:"1" doc:"Anything the caller wants to keep with it."`
}

// ModelConfig says which model answers, and where.
type ModelConfig struct {
	_ struct{} `json:"-" name:"AgentModelConfig"`

	Provider     string        `json:"provider" required:"true" enum:"openai_compat,custom"`
	ModelRef     string        `json:"model_ref" required:"true" minLength:"1" maxLength:"300" doc:"A name that the endpoint knows, or <provider>/<model> of the catalogue."`
	EndpointURL  string        `json:"endpoint_url,omitzero" format:"uri" doc:"An own OpenAI-compatible endpoint, up to and with /v1. Left out: the deployment's."`
	APIKeyRef    string        `json:"api_key_ref,omitzero" doc:"Names a key that the company keeps (PUT /api/v1/llm-credentials/{provider}); never the key itself. It is used only for the endpoint that it was stored for."`
	Capabilities schema.Object `json:"capabilities" doc:"What the model can do. Runs read thinking, reasoning_effort, thinking_budget and max_context_tokens."`
}

// ModelRetry bounds how long a step of a run waits for its model.
type ModelRetry struct {
	_ struct{} `json:"-" name:"ModelRetry"`

	MaxElapsedMS *int64 `json:"max_elapsed_ms,omitzero" nullable:"true" minimum:"0" maximum:"86400000" doc:"Milliseconds from a step's first failure to its last attempt; default 900000. 0: a failure ends the run."`
	MaxAttempts  *int64 `json:"max_attempts,omitzero" nullable:"true" minimum:"1" maximum:"1000" doc:"Attempts of a step; default: any number."`
}

// Prompts are instructions to the model.
type Prompts struct {
	System    string `json:"system,omitzero"`
	Developer string `json:"developer,omitzero"`
}

// Limits bound a run. A limit that is not set does not bind; a limit of 0
// allows none of its thing, but for MaxCostUSD, where 0 is no
// cap.
type Limits struct {
	_ struct{} `json:"-" name:"ResourceLimits"`

	MaxDurationMS   *int64   `json:"max_duration_ms,omitzero" nullable:"true" minimum:"0"`
	MaxSteps        *int64   `json:"max_steps,omitzero" nullable:"true" minimum:"0"`
	MaxToolCalls    *int64   `json:"max_tool_calls,omitzero" nullable:"true" minimum:"0"`
	MaxTokensPerRun *int64   `json:"max_tokens_per_run,omitzero" nullable:"true" minimum:"0"`
	MaxCostUSD      *float64 `json:"max_cost_usd,omitzero" nullable:"true" minimum:"0"`
}
