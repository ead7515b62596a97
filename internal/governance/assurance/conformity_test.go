package assurance_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/agent"
	"agentd/internal/base/hashchain"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/governance/assurance"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A report names the agents for which something is missing, and no others; of other
// companies it knows nothing.
func TestConformity(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		report := func() *assurance.Conformity {
			t.Helper()
			for _, r := range w.a.Routes() {
				if r.ID == "getConformityReport" {
					got, err := r.Call(t.Context(), w.who, &struct{}{})
					if err != nil {
						t.Fatal(err)
					}
					return got.(*assurance.Conformity)
				}
			}
			panic("no route")
		}
		add := func(name, class string, edit func(*agent.Agent)) {
			t.Helper()
			g := w.agents.Blank()
			g.Name, g.Description = name, "Answers letters."
			if class != "" {
				g.RiskClassification = schema.NullableOf[agent.RiskClassification](class)
			}
			if edit != nil {
				edit(g)
			}
			if err := w.agents.Create(t.Context(), w.who, g); err != nil {
				t.Fatal(err)
			}
		}
		named := func(c *assurance.Conformity) map[string][]string {
			all := map[string][]string{}
			for _, s := range c.Sections {
				if (s.Status == "open") != (s.Missing > 0 || s.Title == "Record-keeping" && w.a.Head == nil) || len(s.Findings) == 0 {
					t.Errorf("%+v", s)
				}
				for _, g := range s.Agents {
					all[s.Title] = append(all[s.Title], g.Name)
				}
			}
			return all
		}
		own, _ := w.agents.Get(t.Context(), w.who.TenantID, w.agent.ID)
		add("small", `{"level":"minimal"}`, nil)
		add("late", `{"level":"limited","review_due_at":"2026-01-01T00:00:00Z"}`, nil)
		add("bad", `{"level":"unacceptable"}`, nil)
		add("stopped", `{"level":"unacceptable"}`, func(g *agent.Agent) { g.Status = agent.Suspended })
		add("risky\n# Heading", `{"level":"high"}`, nil)
		add("careful", `{"level":"high"}`, func(g *agent.Agent) {
			g.ApprovalRequiredTools = []string{"send_notification"}
			g.Guardrails = []byte(`{"built_in":["pii"]}`)
		})
		got := report()
		want := map[string][]string{
			"Risk classification": {own.Name, "late"}, "Prohibited practices": {"bad"}, "Impact on fundamental rights": {"risky\n# Heading", "careful"},
			"Technical documentation": {own.Name}, "Human oversight": {"risky\n# Heading"}, "Robustness": {"risky\n# Heading"},
		}
		if diff := cmp.Diff(want, named(got)); diff != "" || got.Agents != 7 || got.Truncated {
			t.Errorf("(-want +got):\n%s%+v", diff, got)
		}
		if !strings.Contains(got.Markdown, "## Risk classification (article 6, 9): open") || strings.Contains(got.Markdown, "\n# Heading") {
			t.Error(got.Markdown)
		}
		w.a.Head = func(context.Context, string) (hashchain.Head, error) { return hashchain.Head{Seq: 7, Hash: "abc"}, nil }
		if got = report(); !strings.Contains(got.Markdown, "The ledger has 7 entries") {
			t.Error(got.Markdown)
		}
		named(got)
		w.who.TenantID = ident.New()
		if got = report(); got.Agents != 0 || len(named(got)) != 0 {
			t.Errorf("of another company: %+v", got)
		}
	})
}
