package assurance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/agent"
	"agentd/internal/agents/guardrail"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/ptr"
	"agentd/internal/base/route"
	"agentd/internal/governance/permission"
)

// Card describes an agent as Annex IV of the EU AI Act asks for it.
type Card struct {
	_ struct{} `json:"-" name:"AISystemCard"`

	SystemName     string                    `json:"system_name" required:"true" doc:"Name of the agent."`
	Provider       string                    `json:"provider" required:"true" doc:"The company that configured it, by its id."`
	Version        string                    `json:"version" required:"true" doc:"Number of the newest version of its configuration."`
	Class          *agent.RiskClassification `json:"risk_classification,omitzero" doc:"Absent where the agent is not classified."`
	Purpose        string                    `json:"intended_purpose" required:"true" doc:"Its description; empty where it has none."`
	Specifications Specifications            `json:"technical_specifications" required:"true"`
	Limitations    []string                  `json:"limitations" required:"true" doc:"What bounds its runs."`
	Guardrails     []string                  `json:"guardrails_summary" required:"true" doc:"What checks messages, answers and tool calls."`
	Oversight      []string                  `json:"human_oversight_measures" required:"true" doc:"What waits for a person, and what it may do at most."`
	DataReached    []string                  `json:"data_reached" required:"true" doc:"Knowledge bases, memory and workspace that it reads."`
	GeneratedAt    time.Time                 `json:"generated_at" required:"true"`
}

// Specifications are the technical part of a card.
type Specifications struct {
	_ struct{} `json:"-" name:"AISystemSpecifications"`

	ModelProvider string   `json:"model_provider" required:"true" doc:"The operator's provider of its model, or the kind of its endpoint."`
	ModelRef      string   `json:"model_ref" required:"true"`
	MaxContext    int64    `json:"max_context_tokens,omitzero" doc:"Absent where the configuration does not say it."`
	Tools         []string `json:"built_in_tools" required:"true"`
	Guarded       bool     `json:"guardrails_enabled" required:"true" doc:"Whether any guardrail is in use."`
	GuardrailIDs  []string `json:"guardrail_ids" required:"true" doc:"Guardrails in use that the company created."`
}

type cardIn struct {
	AgentID string `path:"agentId" format:"any" maxLength:"100"`
	Format  string `query:"format" enum:"json,markdown" default:"json" doc:"json or markdown."`
}

func (a *Assurance) card(ctx context.Context, who authz.Caller, in *cardIn) (*route.Reply, error) {
	if !ident.Valid(in.AgentID) {
		return nil, fault.NewNotFound("agent")
	}
	g, err := a.Agents.Get(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return nil, err
	}
	set, err := a.Permissions.Get(ctx, who.TenantID, in.AgentID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	c, err := CardOf(g, set, a.now())
	if err != nil {
		return nil, err
	}
	if in.Format == "markdown" {
		return &route.Reply{JSON: []byte(c.Markdown()), Media: "text/markdown"}, nil
	}
	text, err := json.Marshal(c)
	return &route.Reply{JSON: text}, err
}

// CardOf describes an agent. Its permission set is nil where it has none.
func CardOf(g *agent.Agent, set *permission.Set, now time.Time) (*Card, error) {
	c := &Card{
		SystemName: g.Name, Provider: g.TenantID, Version: g.VersionNo, Purpose: g.Description, GeneratedAt: now,
		Limitations: limitations(g.Limits, set), Oversight: oversight(g, set), Guardrails: []string{}, DataReached: []string{},
	}
	c.Specifications = Specifications{
		ModelProvider: g.ModelProvider, ModelRef: g.Model.ModelRef, Tools: append([]string{}, g.BuiltInTools...), GuardrailIDs: []string{},
	}
	if c.Specifications.ModelProvider == "" {
		c.Specifications.ModelProvider = g.Model.Provider
	}
	var err error
	if c.Class, err = classOf(g); err != nil {
		return nil, err
	}
	var model struct {
		MaxContext any `json:"max_context_tokens"`
	}
	if len(g.Model.Capabilities) > 0 && json.Unmarshal(g.Model.Capabilities, &model) == nil {
		if n, ok := model.MaxContext.(float64); ok && n > 0 {
			c.Specifications.MaxContext = int64(n)
		}
	}
	if err := c.addGuardrails(g); err != nil {
		return nil, err
	}
	return c, c.addData(g)
}

func (c *Card) addGuardrails(g *agent.Agent) error {
	var s guardrail.Settings
	if len(g.Guardrails) > 0 {
		if err := json.Unmarshal(g.Guardrails, &s); err != nil {
			return err
		}
	}
	for _, name := range s.BuiltIn {
		c.Guardrails = append(c.Guardrails, "Built in: "+name)
	}
	for _, stage := range []struct {
		what string
		uses []guardrail.Use
	}{{"messages", s.Input}, {"answers", s.Output}, {"tool calls", s.Tool}} {
		for _, u := range stage.uses {
			if u.Enabled != nil && !*u.Enabled {
				continue
			}
			c.Guardrails = append(c.Guardrails, "Guardrail "+u.GuardrailID+" checks "+stage.what)
			c.Specifications.GuardrailIDs = append(c.Specifications.GuardrailIDs, u.GuardrailID)
		}
	}
	c.Specifications.Guarded = len(c.Guardrails) > 0
	return nil
}

func (c *Card) addData(g *agent.Agent) error {
	for _, id := range g.KnowledgeBases() {
		c.DataReached = append(c.DataReached, "Knowledge base "+id)
	}
	var memory agent.Memory
	if len(g.Memory) > 0 {
		if err := json.Unmarshal(g.Memory, &memory); err != nil {
			return err
		}
	}
	if memory.Enabled {
		c.DataReached = append(c.DataReached, "Its memory of former runs")
	}
	if id := ptr.Value(g.WorkspaceID); id != "" {
		c.DataReached = append(c.DataReached, "Workspace "+id)
	}
	return nil
}

func limitations(l *agent.Limits, set *permission.Set) []string {
	all := []string{}
	if l != nil {
		for _, limit := range []struct {
			what string
			n    *int64
		}{
			{"milliseconds", l.MaxDurationMS}, {"steps", l.MaxSteps}, {"tool calls", l.MaxToolCalls}, {"tokens", l.MaxTokensPerRun},
		} {
			if limit.n != nil {
				all = append(all, fmt.Sprintf("A run has at most %d %s", *limit.n, limit.what))
			}
		}
		if usd := ptr.Value(l.MaxCostUSD); usd > 0 {
			all = append(all, fmt.Sprintf("A run costs at most %g US dollars", usd))
		}
	}
	if set != nil && set.MaxBudgetPerRunUSD > 0 {
		all = append(all, fmt.Sprintf("A run and those that it starts cost at most %g US dollars", set.MaxBudgetPerRunUSD))
	}
	return all
}

func oversight(g *agent.Agent, set *permission.Set) []string {
	all := []string{}
	if len(g.ApprovalRequiredTools) > 0 {
		all = append(all, "A person approves calls of: "+strings.Join(g.ApprovalRequiredTools, ", "))
	}
	if len(g.AutoApproveTools) > 0 {
		all = append(all, "Without approval it calls: "+strings.Join(g.AutoApproveTools, ", "))
	}
	for _, o := range g.ToolOverrides {
		all = append(all, "Trust in "+o.Tool+": "+o.Trust)
	}
	if g.Status == agent.Suspended {
		all = append(all, "It is suspended and takes no new runs")
	}
	if set == nil {
		return all
	}
	tools := strings.Join(set.AllowedTools, ", ")
	if tools == "" {
		tools = "none"
	}
	all = append(all, "Tools that its permissions allow: "+tools)
	if !set.CanSpawn {
		all = append(all, "It may not make agents")
	}
	if set.Sanction != nil {
		all = append(all, "A sanction keeps it from doing anything: "+set.Sanction.Reason)
	}
	return all
}

// Markdown returns the card as a document for people. What the agent's author wrote is
// quoted, so that it cannot pass for a part of the card.
func (c *Card) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# System card\n\nName: %s\n\nVersion: %s\n\nProvider: %s\n\nGenerated: %s\n",
		quoted(c.SystemName), quoted(c.Version), quoted(c.Provider), c.GeneratedAt.UTC().Format(time.RFC3339))
	class := []string{}
	if c.Class != nil {
		class = append(class, "Level: "+c.Class.Level, "Justification: "+c.Class.Justification, "Assessor: "+c.Class.Assessor)
		if c.Class.Category != "" {
			class = append(class, "Category: "+c.Class.Category)
		}
	}
	s := &c.Specifications
	technical := []string{"Model: " + s.ModelRef, "Model provider: " + s.ModelProvider}
	if s.MaxContext > 0 {
		technical = append(technical, fmt.Sprintf("Context: %d tokens", s.MaxContext))
	}
	for _, tool := range s.Tools {
		technical = append(technical, "Built-in tool: "+tool)
	}
	purpose := []string{}
	if c.Purpose != "" {
		purpose = append(purpose, c.Purpose)
	}
	for _, part := range []struct {
		title string
		lines []string
	}{
		{"Risk classification", class}, {"Intended purpose", purpose}, {"Technical specifications", technical}, {"Data", c.DataReached},
		{"Limitations", c.Limitations}, {"Guardrails", c.Guardrails}, {"Human oversight", c.Oversight},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n", part.title)
		for _, line := range part.lines {
			fmt.Fprintf(&b, "- %s\n", quoted(line))
		}
		if len(part.lines) == 0 {
			b.WriteString("None.\n")
		}
	}
	return b.String()
}

var marks = strings.NewReplacer("\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]",
	"<", "&lt;", "&", "&amp;", "|", "\\|", "!", "\\!")

// quoted returns a text as Markdown that shows it on one line, without any markup.
func quoted(s string) string { return marks.Replace(strings.Join(strings.Fields(s), " ")) }
