// Package agent is what agents are: configured AI workers, their states and
// the versions of their configuration.
package agent

import (
	"time"

	"agentd/internal/agents/guardrail"
	"agentd/internal/agents/mcp"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/model"
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

	// OfMachine is set by the registration of a machine: only that makes an agent whose
	// runs a machine carries. It is not stored.
	OfMachine bool `json:"-"`

	// Traffic divides new runs among versions; nil: all use the newest.
	Traffic *Traffic `json:"traffic,omitzero" readOnly:"true" doc:"How new runs are divided among versions, set by PUT /agents/{agentId}/traffic. Absent: all use the newest."`

	// Changelog names the version that the update at hand records. It is not
	// stored with the agent.
	Changelog string `json:"-"`
}

// The states. A new agent is active.
const (
	Active    = "active"
	Suspended = "suspended"
)

// OnMachine is the execution mode of an agent whose runs a connected machine carries.
const OnMachine = "bridge"

// Config is what a client configures, and what versions record. Objects are kept as
// they came, with members that are not in their type; the parts that act on them
// read them. The tag group names the part of a form that a field belongs to.
type Config struct {
	Name        string       `json:"name" required:"true" minLength:"1" maxLength:"200" group:"basics" doc:"Name of the agent, as people see it."`
	Description string       `json:"description" group:"basics" doc:"What it does, for people and for the agents that may delegate to it."`
	Model       ModelConfig  `json:"model" group:"model" doc:"Which model it uses. Left out: the deployment's default model."`
	Fallback    *ModelConfig `json:"fallback_model" group:"model" doc:"Used where the model fails before it answered anything."`
	// The operator's providers that served the models when they were named; "": another,
	// or it is not known.
	ModelProvider    string `json:"model_provider,omitzero" readOnly:"true" group:"model" doc:"The operator's provider of the model. Its runs go to no other; where the operator removed it, they fail with model_provider_missing."`
	FallbackProvider string `json:"fallback_model_provider,omitzero" readOnly:"true" group:"model" doc:"As model_provider, of fallback_model."`

	ModelRetry   *ModelRetry                       `json:"model_retry" merge:"1" group:"model" advanced:"true" doc:"How long its runs wait for a model that is down or overloaded. Left out: 15 minutes."`
	Settings     schema.NullableOf[model.Settings] `json:"model_settings" merge:"1" group:"model" doc:"How its model answers. Messages and runs may set others, which take precedence member by member."`
	Prompts      Prompts                           `json:"prompts" long:"true" group:"basics" doc:"What the model is told before the conversation."`
	MCP          schema.ObjectOf[mcp.Field]        `json:"mcp" long:"true" group:"tools" doc:"MCP servers of its own, and which of all its servers' tools and resources may be used."`
	Policies     schema.ObjectOf[Policies]         `json:"policies" long:"true" group:"approvals" doc:"Rules for its runs. Members that are not listed are kept, and have no effect."`
	Skills       []schema.ObjectOf[Skill]          `json:"skills" long:"true" group:"publishing" doc:"What it can do. The model is told names and descriptions, and gets the instructions of a skill when it needs them; cards of A2A list them."`
	Thinking     schema.NullableOf[Thinking]       `json:"thinking" group:"model" doc:"How a reasoning model thinks."`
	EffortPolicy schema.NullableOf[EffortPolicy]   `json:"effort_policy" group:"model" advanced:"true" doc:"The effort of each phase of a run. It goes before thinking.effort, unless thinking.mode is fixed."`
	Outcome      schema.NullableOf[judge.Rubric]   `json:"outcome" long:"true" group:"limits" doc:"What makes the results of its runs good enough: a judge scores each, and the run works on until it has the score or a bound is reached. A run's own replaces it. Runs for visitors are not judged."`
	Limits       *Limits                           `json:"resource_limits" merge:"1" group:"limits" doc:"Bounds of each of its runs. A limit that is not set does not bind."`

	Memory                schema.NullableOf[Memory]             `json:"memory" merge:"1" group:"memory" doc:"What it remembers between runs."`
	CoreMemory            schema.NullableOf[CoreMemory]         `json:"core_memory" long:"true" merge:"1" group:"memory" doc:"Short texts that it always has in mind."`
	Guardrails            schema.NullableOf[guardrail.Settings] `json:"guardrails" long:"true" merge:"1" group:"guardrails" doc:"Checks of what goes in and out, and of tool calls."`
	ApprovalRequiredTools []string                              `json:"approval_required_tools" group:"approvals" doc:"Tools whose calls wait for a person's approval; * is all of them."`
	AutoApproveTools      []string                              `json:"auto_approve_tools" maxItems:"200" group:"approvals" doc:"Tools whose calls do not wait, although approval_required_tools is *. A tool that stands there by its name waits."`
	ToolOverrides         []ToolOverride                        `json:"tool_overrides" long:"true" maxItems:"200" group:"approvals" doc:"How far single tools are trusted. These go before policies.tool_approvals and approval_required_tools."`
	Autonomy              *Autonomy                             `json:"autonomy" group:"approvals" doc:"Kept and shown; has no effect yet."`
	BuiltInTools          []string                              `json:"built_in_tools" group:"tools" doc:"Built-in tools that it may use."`
	ImageGeneration       schema.NullableOf[ImageGeneration]    `json:"image_generation" merge:"1" group:"tools" doc:"Gives it the tool generate_image."`
	KnowledgeBaseID       *string                               `json:"knowledge_base_id" group:"knowledge" ref:"knowledge_base" doc:"A knowledge base that knowledge_search finds documents in, beside those of knowledge_base_ids."`
	KnowledgeBaseIDs      []string                              `json:"knowledge_base_ids" maxItems:"20" maxLength:"36" group:"knowledge" ref:"knowledge_base" doc:"The knowledge bases that knowledge_search finds documents in."`

	ExecutionMode        string                                `json:"execution_mode" enum:"async,worker,bridge" default:"async" group:"execution" advanced:"true" doc:"bridge: a connected machine carries its runs; only POST /bridge/register makes such an agent, and it stays one. async and worker are the same: any node that carries runs carries its runs."`
	WorkerReuse          bool                                  `json:"worker_reuse" group:"execution" advanced:"true" doc:"Kept and shown; has no effect yet."`
	Schedule             schema.NullableOf[Schedule]           `json:"schedule" merge:"1" group:"schedule" doc:"When it runs by itself."`
	Visibility           Visibility                            `json:"visibility" enum:"private,tenant,public,team" default:"private" group:"publishing" doc:"Who may find it: its own company alone (private, tenant), or others too (public). team is another name for tenant. With public_config.enabled, public publishes its card."`
	PublicConfig         *PublicConfig                         `json:"public_config" long:"true" merge:"1" group:"publishing" doc:"How it talks with visitors."`
	A2A                  schema.NullableOf[A2A]                `json:"a2a" group:"publishing" advanced:"true" doc:"How it appears to agents of other systems."`
	RiskClassification   schema.NullableOf[RiskClassification] `json:"risk_classification" group:"governance" advanced:"true" doc:"Its class under the EU AI Act. Only an admin sets and changes it, best by PATCH /agents/{agentId}/risk-classification. It is passed on to agents that the agent makes; limited and high ask for an assessment (POST /agents/{agentId}/fria)."`
	AccessControl        *AccessControl                        `json:"access_control" merge:"1" group:"governance" advanced:"true" doc:"Its clearance and compartments. Kept and shown; has no effect yet."`
	CommandRelationships *CommandRelationships                 `json:"command_relationships" merge:"1" group:"governance" advanced:"true" doc:"Who commands it. Kept and shown; has no effect yet."`
	Specs                []schema.ObjectOf[InstalledSpec]      `json:"specs" long:"true" maxItems:"100" group:"governance" advanced:"true" doc:"Specifications that are installed on it. Kept and shown; has no effect yet."`
	Bridge               schema.Nullable                       `json:"bridge" long:"true" group:"execution" advanced:"true" doc:"What a bridge knows of it; a free object. Kept and shown; has no effect yet."`
	WorkspaceID          *string                               `json:"workspace_id" group:"tools" ref:"workspace" doc:"The workspace that its file tools work in. Left out: one of its own."`
	ContextStrategy      string                                `json:"context_strategy" enum:"compaction,summarize,truncate,sliding_window" default:"compaction" group:"context" doc:"What happens to a conversation that outgrows the model's context."`
	ContextWindowSize    int                                   `json:"context_window_size" minimum:"1" default:"20" group:"context" doc:"How many recent messages sliding_window keeps."`
	Metadata             schema.Object                         `json:"metadata" long:"true" merge:"1" group:"basics" advanced:"true" doc:"Anything the caller wants to keep with it; a free object."`
}

// ModelConfig says which model answers, and where.
type ModelConfig struct {
	_ struct{} `json:"-" name:"AgentModelConfig"`

	Provider     string        `json:"provider" required:"true" enum:"openai_compat,custom" doc:"openai_compat: a model of the catalogue, or of endpoint_url; custom: a model of endpoint_url, or a builtin one."`
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
	System    string `json:"system,omitzero" doc:"The system prompt."`
	Developer string `json:"developer,omitzero" doc:"Added to the system prompt, after a blank line."`
}

// Limits bound a run. A limit that is not set does not bind; a limit of 0
// allows none of its thing, but for MaxCostUSD, where 0 is no
// cap.
type Limits struct {
	_ struct{} `json:"-" name:"ResourceLimits"`

	MaxDurationMS   *int64   `json:"max_duration_ms,omitzero" nullable:"true" minimum:"0" doc:"Milliseconds, without the time that it waits for people."`
	MaxSteps        *int64   `json:"max_steps,omitzero" nullable:"true" minimum:"0" doc:"Steps of a run: model calls and tool calls. Default: 200."`
	MaxToolCalls    *int64   `json:"max_tool_calls,omitzero" nullable:"true" minimum:"0" doc:"Tool calls of a run. Default: no limit."`
	MaxTokensPerRun *int64   `json:"max_tokens_per_run,omitzero" nullable:"true" minimum:"0" doc:"Tokens read and written."`
	MaxCostUSD      *float64 `json:"max_cost_usd,omitzero" nullable:"true" minimum:"0" doc:"0 is no limit."`
}
