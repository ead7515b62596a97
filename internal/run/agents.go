package run

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/agent"
	"agentd/internal/fault"
	"agentd/internal/model"
)

// AgentSource implements Agents with the agents of this deployment.
type AgentSource struct{ Agents *agent.Agents }

// Spec implements Agents.
func (s AgentSource) Spec(ctx context.Context, tenant, id string, version int64) (*AgentSpec, error) {
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
	spec := specOf(&config)
	spec.ID, spec.Version, spec.Suspended = id, version, g.Status != agent.Active
	return spec, nil
}

func specOf(c *agent.Config) *AgentSpec {
	spec := &AgentSpec{
		Model: modelSpec(c.Model), Tools: c.BuiltInTools,
		System: strings.TrimSpace(c.Prompts.System + "\n\n" + c.Prompts.Developer),
	}
	if c.Fallback != nil {
		m := modelSpec(*c.Fallback)
		spec.Fallback = &m
	}
	if l := c.Limits; l != nil {
		spec.Limits = Limits{l.MaxDurationMS, l.MaxSteps, l.MaxToolCalls, l.MaxTokensPerRun}
	}
	if len(c.Policies) > len("{}") {
		var policies struct {
			CancelOnDisconnect bool `json:"cancel_on_disconnect"`
		}
		// Policies are free: what is of another type is somebody else's key.
		spec.CancelOnDisconnect = json.Unmarshal(c.Policies, &policies) == nil && policies.CancelOnDisconnect
	}
	return spec
}

func modelSpec(m agent.ModelConfig) model.Spec {
	return model.Spec{Provider: m.Provider, ModelRef: m.ModelRef, EndpointURL: m.EndpointURL, APIKeyRef: m.APIKeyRef}
}
