package run

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/model"
)

// AgentSource implements Agents with the stored agents.
type AgentSource struct {
	Agents *agent.Agents
	// Defaults returns what holds for agents that do not say; nil: FirstDefaults.
	Defaults func() Defaults
}

// Defaults is for how long runs go on and wait whose agents do not say.
type Defaults struct {
	ApprovalTimeout time.Duration // of approvals, questions and authorizations
	ModelWait       time.Duration // for a model whose failure passes
	MaxSteps        int64
}

// FirstDefaults is what holds until the operator sets something else.
func FirstDefaults() Defaults {
	return Defaults{ApprovalTimeout: 72 * time.Hour, ModelWait: DefaultModelRetry.MaxElapsed, MaxSteps: 200}
}

// Spec implements Agents.
func (s AgentSource) Spec(ctx context.Context, tenant, id string, version int64) (*AgentSpec, error) {
	return s.spec(ctx, tenant, id, version, nil)
}

// Patched implements Agents.
func (s AgentSource) Patched(ctx context.Context, tenant, id string, version int64, patch jsontext.Value) (*AgentSpec, error) {
	return s.spec(ctx, tenant, id, version, func(config *agent.Config) error { return s.Agents.Patch(config, patch) })
}

func (s AgentSource) spec(
	ctx context.Context, tenant, id string, version int64, change func(*agent.Config) error,
) (*AgentSpec, error) {
	g, err := s.Agents.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	head, err := strconv.ParseInt(g.VersionNo, 10, 64)
	if err != nil {
		return nil, fault.New(fault.Internal, "", "The agent's version cannot be read.").Because(err)
	}
	config := g.Config
	if version == 0 {
		version = head
	}
	if version != head {
		old, err := s.Agents.GetVersion(ctx, tenant, id, version)
		if err != nil {
			return nil, err
		}
		config = agent.Config{}
		if err := json.Unmarshal(old.Config, &config); err != nil {
			return nil, err
		}
	}
	if change != nil {
		if err := change(&config); err != nil {
			return nil, err
		}
	}
	defaults := FirstDefaults()
	if s.Defaults != nil {
		defaults = s.Defaults()
	}
	spec := specOf(&config, defaults)
	spec.ID, spec.Version, spec.Suspended, spec.Traffic = id, version, g.Status != agent.Active, g.Traffic
	return spec, nil
}

func specOf(c *agent.Config, d Defaults) *AgentSpec {
	spec := &AgentSpec{
		Model: modelSpec(c.Model), Tools: c.BuiltInTools,
		System:        strings.TrimSpace(c.Prompts.System + "\n\n" + c.Prompts.Developer),
		ApprovalTools: c.ApprovalRequiredTools, ApprovalTimeout: d.ApprovalTimeout,
		AutoApproveTools: c.AutoApproveTools, ToolOverrides: c.ToolOverrides,
		MCP: schema.Object(c.MCP), Memory: memoryOf(c), Guardrails: schema.Nullable(c.Guardrails),
		Thinking: schema.Nullable(c.Thinking), EffortPolicy: schema.Nullable(c.EffortPolicy),
		ImageGeneration: schema.Nullable(c.ImageGeneration), ContextStrategy: c.ContextStrategy, ContextWindow: c.ContextWindowSize,
		Public: c.PublicConfig, OnMachine: c.ExecutionMode == agent.OnMachine,
	}
	for _, raw := range c.Skills {
		var k agent.Skill
		if json.Unmarshal(raw, &k) == nil && k.Name != "" {
			spec.Skills = append(spec.Skills, k)
		}
	}
	spec.Outcome, _ = judge.Parse([]byte(c.Outcome), "outcome") // wrong ones were refused when the agent was written
	spec.Model.Remembered = c.ModelProvider
	spec.ModelRetry, spec.Settings = modelRetry(c.ModelRetry, d), []byte(c.Settings)
	if c.Fallback != nil {
		m := modelSpec(*c.Fallback)
		m.Remembered = c.FallbackProvider
		spec.Fallback = &m
	}
	if l := c.Limits; l != nil {
		spec.Limits = Limits{l.MaxDurationMS, l.MaxSteps, l.MaxToolCalls, l.MaxTokensPerRun, l.MaxCostUSD}
	}
	if len(c.Policies) > len("{}") {
		spec.policies(schema.Object(c.Policies))
	}
	return spec
}

// memoryOf returns the agent's memory field with its core_memory inside, because
// both are recalled at the same moment.
func memoryOf(c *agent.Config) schema.Nullable {
	if len(c.CoreMemory) == 0 {
		return schema.Nullable(c.Memory)
	}
	all := map[string]jsontext.Value{}
	if len(c.Memory) > 0 && json.Unmarshal(c.Memory, &all) != nil {
		return schema.Nullable(c.Memory)
	}
	all["core_memory"] = jsontext.Value(c.CoreMemory)
	joined, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		return schema.Nullable(c.Memory)
	}
	return joined
}

// policies reads the keys that apply to runs. Policies are free-form: a key with
// a value of another type is ignored.
func (spec *AgentSpec) policies(raw schema.Object) {
	var keys map[string]jsontext.Value
	if json.Unmarshal(raw, &keys) != nil {
		return
	}
	read := func(name string, v any) bool { return keys[name] != nil && json.Unmarshal(keys[name], v) == nil }
	var ms int64
	if read("approval_timeout_ms", &ms) && ms > 0 {
		spec.ApprovalTimeout = time.Duration(ms) * time.Millisecond
	}
	read("cancel_on_disconnect", &spec.CancelOnDisconnect)
	read("tool_approvals", &spec.ApprovalRules)
}

func modelRetry(c *agent.ModelRetry, d Defaults) ModelRetry {
	r := ModelRetry{MaxElapsed: d.ModelWait}
	if c == nil {
		return r
	}
	if c.MaxElapsedMS != nil {
		r.MaxElapsed = time.Duration(*c.MaxElapsedMS) * time.Millisecond
	}
	if c.MaxAttempts != nil {
		r.MaxAttempts = int(*c.MaxAttempts)
	}
	return r
}

func modelSpec(m agent.ModelConfig) model.Spec {
	return model.Spec{
		Provider: m.Provider, ModelRef: m.ModelRef, EndpointURL: m.EndpointURL, APIKeyRef: m.APIKeyRef,
		Capabilities: []byte(m.Capabilities),
	}
}
