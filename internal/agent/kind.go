package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/authz"
	"agentd/internal/fault"
	"agentd/internal/resource"
	"agentd/internal/schema"
	"agentd/internal/txn"
)

// Options are what agents take from the deployment.
type Options struct {
	DefaultModel ModelConfig            // of agents that name none; zero: the built-in echo
	Tools        []string               // names of the built-in tools that there are
	CheckURL     func(url string) error // says why an endpoint cannot be called; without looking it up
	Workspaces   Workspaces             // nil: a workspace_id is only kept
	// CheckGuardrails says what is wrong with a guardrails field, with paths
	// from the agent's body; nil: it is kept as it comes.
	CheckGuardrails func(schema.Nullable) []fault.Field
}

// Workspaces is the port to where agents keep their files.
type Workspaces interface {
	// Place notes which workspace an agent works in, nil for none of its
	// choosing. Errors: fault.NotFound for the workspace.
	Place(tx txn.Tx, tenant, agent string, workspace *string) error
}

// Echo is the model that needs no endpoint: it answers by rule.
var Echo = ModelConfig{Provider: "custom", ModelRef: "builtin/echo"}

func (a *Agents) kind(o Options) resource.Kind[Agent] {
	model := o.DefaultModel
	if model.ModelRef == "" {
		model = Echo
	}
	return resource.Kind[Agent]{
		Name: "agent", Path: "/api/v1/agents", Tag: "Agents",
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
		Put:     resource.PutMerges,
		Indexes: []resource.Index[Agent]{{
			Name: "workspace_id", Doc: "Only agents of this workspace.",
			Of: func(g *Agent) string { return deref(g.WorkspaceID) },
		}},
		Filters:  []string{"workspace_id"},
		Default:  func(g *Agent) { g.Model, g.Status = model, Active },
		Validate: o.validate,
		Label:    func(g *Agent) string { return g.Name },
		State:    func(g *Agent) *string { return &g.Status },
		Moves: []resource.Move[Agent]{
			{
				Action: "suspend", From: []string{Active}, To: Suspended,
				Summary: "Have an agent take no new runs.", With: resource.Doing(suspend),
			},
			{Action: "activate", From: []string{Suspended}, To: Active, Summary: "Have a suspended agent take runs again."},
		},
		Before: a.before,
		After:  a.after,
	}
}

type suspendIn struct {
	_ struct{} `json:"-" name:"AgentSuspend"`

	Reason string `json:"reason" maxLength:"2000" doc:"Why, for whoever looks at the agent later."`
}

func suspend(e *resource.Edit[Agent], in *suspendIn) error {
	e.New.StatusReason, e.New.StatusReasonCode = in.Reason, "manual"
	return nil
}

func (o Options) validate(g *Agent) []fault.Field {
	var wrong []fault.Field
	add := func(field, message string) { wrong = append(wrong, fault.Field{Field: field, Message: message}) }
	if strings.TrimSpace(g.Name) == "" {
		add("name", "it is blank")
	}
	for i, name := range g.BuiltInTools {
		if !slices.Contains(o.Tools, name) {
			add(fmt.Sprintf("built_in_tools[%d]", i), "there is no such built-in tool; there are "+strings.Join(o.Tools, ", "))
		}
	}
	for _, m := range []struct {
		field string
		model *ModelConfig
	}{{"model", &g.Model}, {"fallback_model", g.Fallback}} {
		if m.model != nil && m.model.EndpointURL != "" {
			if err := o.CheckURL(m.model.EndpointURL); err != nil {
				add(m.field+".endpoint_url", err.Error())
			}
		}
	}
	if o.CheckGuardrails != nil {
		wrong = append(wrong, o.CheckGuardrails(g.Guardrails)...)
	}
	if len(g.Schedule) > 0 {
		var s struct {
			Cron any `json:"cron"`
		}
		if err := json.Unmarshal(g.Schedule, &s); err != nil {
			add("schedule", "it cannot be read")
		} else if cron, ok := s.Cron.(string); !ok || strings.TrimSpace(cron) == "" {
			add("schedule.cron", "expected a cron expression")
		}
	}
	wrong = append(wrong, checkPolicies(g.Policies)...)
	return append(wrong, misshapen(g)...)
}

func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}
