package assurance_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/internal/agents/agent"
	"agentd/internal/agents/guardrail"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/governance/assurance"
	"agentd/internal/governance/permission"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestCardOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		edit func(*agent.Agent)
		set  *permission.Set
		want func(*assurance.Card)
	}{
		{name: "bare"},
		{
			name: "model",
			edit: func(g *agent.Agent) {
				g.ModelProvider, g.Model.Capabilities = "default", schema.Object(`{"max_context_tokens":8000}`)
				g.BuiltInTools = []string{"calculator"}
			},
			want: func(c *assurance.Card) {
				c.Specifications.ModelProvider, c.Specifications.MaxContext, c.Specifications.Tools = "default", 8000, []string{"calculator"}
			},
		},
		{
			name: "classified",
			edit: func(g *agent.Agent) {
				g.RiskClassification = schema.NullableOf[agent.RiskClassification](`{"level":"high"}`)
			},
			want: func(c *assurance.Card) { c.Class = &agent.RiskClassification{Level: "high"} },
		},
		{
			name: "guarded",
			edit: func(g *agent.Agent) {
				g.Guardrails = schema.NullableOf[guardrail.Settings](
					`{"built_in":["pii"],"input":[{"guardrail_id":"g1"},{"guardrail_id":"g2","enabled":false}]}`)
			},
			want: func(c *assurance.Card) {
				c.Guardrails = []string{"Built in: pii", "Guardrail g1 checks messages"}
				c.Specifications.Guarded, c.Specifications.GuardrailIDs = true, []string{"g1"}
			},
		},
		{
			name: "data",
			edit: func(g *agent.Agent) {
				g.KnowledgeBaseIDs, g.WorkspaceID = []string{"k1"}, new("w1")
				g.Memory = schema.NullableOf[agent.Memory](`{"enabled":true}`)
			},
			want: func(c *assurance.Card) {
				c.DataReached = []string{"Knowledge base k1", "Its memory of former runs", "Workspace w1"}
			},
		},
		{
			name: "limits",
			edit: func(g *agent.Agent) { g.Limits = &agent.Limits{MaxSteps: new(int64(5)), MaxCostUSD: new(0.5)} },
			set:  &permission.Set{MaxBudgetPerRunUSD: 2, CanSpawn: true, AllowedTools: []string{"*"}},
			want: func(c *assurance.Card) {
				c.Limitations = []string{
					"A run has at most 5 steps", "A run costs at most 0.5 US dollars", "A run and those that it starts cost at most 2 US dollars",
				}
				c.Oversight = []string{"Tools that its permissions allow: *"}
			},
		},
		{
			name: "oversight",
			edit: func(g *agent.Agent) {
				g.ApprovalRequiredTools, g.AutoApproveTools, g.Status = []string{"*"}, []string{"calculator"}, agent.Suspended
				g.ToolOverrides = []agent.ToolOverride{{Tool: "write_file", Trust: agent.NeverAllow}}
			},
			set: &permission.Set{Sanction: &permission.Sanction{Reason: "It broke a rule"}},
			want: func(c *assurance.Card) {
				c.Oversight = []string{
					"A person approves calls of: *", "Without approval it calls: calculator", "Trust in write_file: never_allow",
					"It is suspended and takes no new runs", "Tools that its permissions allow: none", "It may not make agents",
					"A sanction keeps it from doing anything: It broke a rule",
				}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := &agent.Agent{Config: agent.Config{Name: "Clerk", Description: "Reads mail", Model: agent.Echo}, VersionNo: "3"}
			g.TenantID = "t1"
			want := &assurance.Card{
				SystemName: "Clerk", Provider: "t1", Version: "3", Purpose: "Reads mail", GeneratedAt: now,
				Specifications: assurance.Specifications{
					ModelProvider: "custom", ModelRef: "builtin/echo", Tools: []string{}, GuardrailIDs: []string{},
				},
				Limitations: []string{}, Guardrails: []string{}, Oversight: []string{}, DataReached: []string{},
			}
			if tt.edit != nil {
				tt.edit(g)
			}
			if tt.want != nil {
				tt.want(want)
			}
			got, err := assurance.CardOf(g, tt.set, now)
			unexported := cmpopts.IgnoreUnexported(assurance.Card{}, assurance.Specifications{}, agent.RiskClassification{})
			if diff := cmp.Diff(got, want, unexported); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

func TestSystemCard(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		card, err := w.call(w.who, "getAgentSystemCard", w.agent.ID, "")
		if err != nil || card["system_name"] != "Clerk" || card["generated_at"] != "2026-11-23T12:00:00Z" {
			t.Errorf("%v, %v", card, err)
		}
		routes := w.a.Routes()
		r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == "getAgentSystemCard" })]
		in := reflect.New(r.In)
		in.Elem().FieldByName("AgentID").SetString(w.agent.ID)
		in.Elem().FieldByName("Format").SetString("markdown")
		out, err := r.Call(t.Context(), w.who, in.Interface())
		if err != nil {
			t.Fatal(err)
		}
		reply := out.(*route.Reply)
		if text := string(reply.JSON); reply.Media != "text/markdown" || !strings.HasPrefix(text, "# System card\n\nName: Clerk\n") {
			t.Errorf("%s: %s", reply.Media, text)
		}
	})
}

// What the author of an agent writes cannot pass for a part of the card.
func TestCardsQuote(t *testing.T) {
	t.Parallel()
	c := &assurance.Card{SystemName: "A\n## Human oversight\n- none *needed*", Purpose: "<script>x</script> [a](b)"}
	text := c.Markdown()
	if strings.Count(text, "\n## Human oversight") != 1 || strings.Contains(text, "<script>") ||
		!strings.Contains(text, `\[a\](b)`) || !strings.Contains(text, `\*needed\*`) {
		t.Error(text)
	}
}
