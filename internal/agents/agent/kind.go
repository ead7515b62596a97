package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/jsonform"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
)

// Options are what agents take from the deployment.
type Options struct {
	DefaultModel func() ModelConfig     // of new agents that name none; nil, or zero: the built-in echo
	Tools        []string               // names of the built-in tools that there are
	CheckURL     func(url string) error // says why an endpoint cannot be called; without looking it up
	Workspaces   Workspaces             // nil: a workspace_id is only kept
	// CheckMCP says what is wrong with the mcp field; nil: anything goes.
	CheckMCP func(schema.Object) []fault.Field
	// KnowledgeBase refuses a knowledge base that the tenant does not have, with
	// fault.NotFound. nil: any id is kept.
	KnowledgeBase func(tx txn.Tx, tenant, id string) error
	MCPAddresses  func(schema.Object) []egress.Address // the URLs in the mcp field; nil: it has none
	// ProviderOf returns the operator's provider of a model that a config names without
	// an endpoint and a key; "" for other models. nil: none is remembered.
	ProviderOf func(ref string) string
	// CheckGuardrails says what is wrong with a guardrails field, with paths
	// from the agent's body; nil: it is kept as it comes.
	CheckGuardrails func(schema.Nullable) []fault.Field
	// CheckSchedule says what is wrong with the field schedule. Nil: only its
	// cron is looked for.
	CheckSchedule func(schema.Nullable) []fault.Field
	// VersionInUse reports whether a run that has not ended uses a version, which is
	// then kept. nil: none is.
	VersionInUse func(tx txn.Tx, tenant, id string, version int64) (bool, error)
	Quota        quota.Gate // nil: there may be any number of agents
	// Classified records the new risk classification of an agent; an empty class: it has
	// none any more. nil: nothing is recorded.
	Classified func(tx txn.Tx, who authz.Caller, id string, class jsontext.Value) error
	// Published stores whether agents of other systems may find an agent; nil: it is
	// not stored.
	Published PublishFunc
	Stats     StatsFunc // for lists with include=stats; nil: they have none
}

// Workspaces is the port to where agents keep their files.
type Workspaces interface {
	// AssignTx notes which workspace an agent works in, nil for none of its
	// choosing. Errors: fault.NotFound for the workspace.
	AssignTx(tx txn.Tx, tenant, agent string, workspace *string) error
}

// KnowledgeBaseIndex finds agents by their only knowledge base, and by
// SeveralBases those that have more.
const (
	KnowledgeBaseIndex = "knowledge_base_id"
	SeveralBases       = "several"
)

// nameIndex finds agents by name.
const nameIndex = "name"

// Echo is the model that needs no endpoint: it answers by rule.
var Echo = ModelConfig{Provider: "custom", ModelRef: "builtin/echo"}

func (a *Agents) kind(o Options) resource.Kind[Agent] {
	model := func() ModelConfig {
		if o.DefaultModel != nil {
			if model := o.DefaultModel(); model.ModelRef != "" {
				return model
			}
		}
		return Echo
	}
	limited := quota.Creation[Agent](o.Quota, quota.Agents)
	return resource.Kind[Agent]{
		Name: "agent", Path: "/api/v1/agents", Tag: "Agents",
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
		Put:     resource.PutMerges,
		Indexes: []resource.Index[Agent]{{
			Name: "workspace_id", Doc: "Only agents of this workspace.",
			Of: func(g *Agent) string { return ptr.Value(g.WorkspaceID) },
		}, {
			Name: KnowledgeBaseIndex, Of: indexOfBases,
		}, {
			Name: "parent_agent_id", Of: func(g *Agent) string { return g.Lineage().ParentID },
		}, {
			Name: nameIndex, Of: func(g *Agent) string { return g.Name },
		}},
		Filters:  []string{"workspace_id"},
		Default:  func(g *Agent) { g.Model, g.Status = model(), Active },
		Validate: o.validate,
		Label:    func(g *Agent) string { return g.Name },
		Events: []resource.EventType{
			{Name: "agent.created", Doc: "An agent was created.", Actions: []string{resource.Created}},
			{
				Name: "agent.updated", Doc: "An agent was changed, suspended or activated.",
				Actions: []string{resource.Updated, "suspend", "activate"},
			},
			{Name: "agent.deleted", Doc: "An agent was deleted.", Actions: []string{resource.Deleted}},
		},
		Addresses: o.addresses,
		Include:   o.Stats.include(),
		State:     func(g *Agent) *string { return &g.Status },
		Moves: []resource.Move[Agent]{
			{
				Action: "suspend", From: []string{Active}, To: Suspended,
				Summary: "Have an agent take no new runs.", With: resource.Doing(suspend),
			},
			{Action: "activate", From: []string{Suspended}, To: Active, Summary: "Have a suspended agent take runs again."},
		},
		Before: func(e *resource.Edit[Agent]) error {
			if err := checkMode(e); err != nil {
				return err
			}
			if err := limited(e); err != nil {
				return err
			}
			if err := o.checkReferences(e); err != nil {
				return err
			}
			if err := o.checkClass(e); err != nil {
				return err
			}
			o.rememberProviders(e)
			return a.setStatusTime(e)
		},
		After: a.after,
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

// checkReferences looks at what a write newly refers to. What was there when
// an agent was made to refer to it may go later.
func (o Options) checkReferences(e *resource.Edit[Agent]) error {
	if o.KnowledgeBase == nil {
		return nil
	}
	var before []string
	if e.Old != nil {
		before = e.Old.KnowledgeBases()
	}
	if id := ptr.Value(e.New.KnowledgeBaseID); id != "" && !slices.Contains(before, id) {
		if err := o.KnowledgeBase(e.Tx, e.New.TenantID, id); err != nil {
			return err
		}
	}
	return resource.CheckReferences("knowledge_base_ids", "knowledge base", e.New.KnowledgeBaseIDs, before, func(id string) error {
		return o.KnowledgeBase(e.Tx, e.New.TenantID, id)
	})
}

// checkMode refuses a write that binds an agent to a machine, or takes it away from one:
// only the registration of a machine does the first, and nothing the second.
func checkMode(e *resource.Edit[Agent]) error {
	is, was := e.New.ExecutionMode == OnMachine, e.Old != nil && e.Old.ExecutionMode == OnMachine
	switch {
	case is == was || is && e.Old == nil && e.New.OfMachine:
		return nil
	case was:
		return fault.BadFields(fault.Field{
			Field: "execution_mode", Message: "a machine carries the agent's runs, and keeps doing so; make another agent",
		})
	}
	return fault.BadFields(fault.Field{
		Field: "execution_mode", Message: "bridge is the mode of agents that a machine registers: connect one with agentd bridge",
	})
}

// KnowledgeBases returns the ids of the knowledge bases that the agent searches.
func (c *Config) KnowledgeBases() []string {
	var ids []string
	for _, id := range append([]string{ptr.Value(c.KnowledgeBaseID)}, c.KnowledgeBaseIDs...) {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func indexOfBases(g *Agent) string {
	switch ids := g.KnowledgeBases(); len(ids) {
	case 0:
		return ""
	case 1:
		return ids[0]
	default:
		return SeveralBases
	}
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
	if o.CheckMCP != nil {
		wrong = append(wrong, o.CheckMCP(schema.Object(g.MCP))...)
	}
	if o.CheckGuardrails != nil {
		wrong = append(wrong, o.CheckGuardrails(schema.Nullable(g.Guardrails))...)
	}
	if len(g.Schedule) > 0 {
		check := o.CheckSchedule
		if check == nil {
			check = hasCron
		}
		wrong = append(wrong, check(schema.Nullable(g.Schedule))...)
	}
	wrong = append(wrong, checkPolicies(g.Policies)...)
	wrong = append(wrong, checkOverrides(g.ToolOverrides)...)
	wrong = append(wrong, checkOutcome(g)...)
	wrong = append(wrong, checkOrigins(g.PublicConfig)...)
	return append(append(wrong, wrongEffort(g.Thinking)...), jsonform.WrongSettings(g.Settings)...)
}

// checkOutcome refuses a rubric that contradicts itself, and one that would have no effect.
func checkOutcome(g *Agent) []fault.Field {
	rubric, wrong := judge.Parse([]byte(g.Outcome), "outcome")
	if rubric != nil && g.ExecutionMode == OnMachine {
		return []fault.Field{{Field: "outcome", Message: "a machine carries the agent's runs, which are not judged; leave it out"}}
	}
	return wrong
}

// addresses returns the URLs that runs of an agent call.
func (o Options) addresses(g *Agent) (all []egress.Address) {
	if at := g.Model.EndpointURL; at != "" {
		all = append(all, egress.Address{Field: "model.endpoint_url", URL: at})
	}
	if g.Fallback != nil && g.Fallback.EndpointURL != "" {
		all = append(all, egress.Address{Field: "fallback_model.endpoint_url", URL: g.Fallback.EndpointURL})
	}
	if o.MCPAddresses != nil {
		all = append(all, o.MCPAddresses(schema.Object(g.MCP))...)
	}
	return all
}

func hasCron(schedule schema.Nullable) []fault.Field {
	var s struct {
		Cron any `json:"cron"`
	}
	if err := json.Unmarshal(schedule, &s); err != nil {
		return []fault.Field{{Field: "schedule", Message: "it cannot be read"}}
	}
	if cron, ok := s.Cron.(string); !ok || strings.TrimSpace(cron) == "" {
		return []fault.Field{{Field: "schedule.cron", Message: "expected a cron expression"}}
	}
	return nil
}
