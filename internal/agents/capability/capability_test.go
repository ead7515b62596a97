package capability_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/agent"
	"agentd/internal/agents/capability"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestManifests(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		deps, _ := resourcetest.Deps(resourcesql.New(db), db)
		who, base := authz.Caller{TenantID: ident.New(), UserID: "ada", Role: authz.Owner}, ident.New()
		agents := agent.New(deps, agent.Options{Tools: []string{"calculator"}, CheckURL: func(string) error { return nil }})
		all := capability.New(deps, capability.Options{Agents: agents, KnowledgeBaseTx: func(_ txn.Tx, _, id string) error {
			if id == base {
				return nil
			}
			return fault.NewNotFound("knowledge base")
		}})
		call := func(who authz.Caller, id, agent, body string) (string, error) {
			t.Helper()
			routes := all.Routes()
			r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == id })]
			in := reflect.New(r.In)
			in.Elem().FieldByName("AgentID").SetString(agent)
			if body != "" {
				c, err := schema.Decode[capability.Content]([]byte(body))
				if err != nil {
					return "", err
				}
				in.Elem().FieldByName("Body").Set(reflect.ValueOf(*c))
			}
			got, err := r.Call(t.Context(), who, in.Interface())
			if err != nil {
				return "", err
			}
			if m, ok := got.(*capability.Manifest); ok {
				if m.UpdatedAt.IsZero() {
					t.Error("no updated_at")
				}
				m.UpdatedAt = m.UpdatedAt.AddDate(-m.UpdatedAt.Year(), 0, 0)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			return string(text), nil
		}
		same := func(id, want string) {
			t.Helper()
			got, err := call(who, "getAgentCapabilities", id, "")
			if err != nil {
				t.Fatal(err)
			}
			var a, b map[string]any
			if json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
				t.Fatal(got, want)
			}
			delete(a, "updated_at")
			if diff := cmp.Diff(b, a); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		g := agents.Store().Blank()
		g.Name, g.BuiltInTools, g.Model.Capabilities = "calc", []string{"calculator"}, schema.Object(`{"max_context_tokens":9000}`)
		g.Skills = []schema.ObjectOf[agent.Skill]{schema.ObjectOf[agent.Skill](`{"name":"Sums","description":"Adds."}`), schema.ObjectOf[agent.Skill](`{"name":7}`)}
		if err := agents.Store().Create(t.Context(), who, g); err != nil {
			t.Fatal(err)
		}
		same(g.ID, `{"agent_id":"`+g.ID+`","skills":[{"id":"1","name":"Sums","description":"Adds.","input_types":[],"output_types":[],"avg_latency_ms":0,"success_rate":0}],
			"constraints":{"max_context_tokens":9000},"tools":["calculator"],"kb_ids":[]}`)
		whole := `"skills":[{"id":"s","name":"Sums","description":"Adds.","input_types":["text/plain"],"output_types":["text/csv"],"avg_latency_ms":12.5,"success_rate":0.9}],
			"constraints":{"max_context_tokens":8000,"supported_languages":["en"],"rate_limit_rpm":60},"tools":["t"],"kb_ids":["` + base + `"]}`
		if got, err := call(who, "setAgentCapabilities", g.ID, "{"+whole); err != nil || got != `{"status":"updated","agent_id":"`+g.ID+`"}` {
			t.Fatal(got, err)
		}
		same(g.ID, `{"agent_id":"`+g.ID+`",`+whole)
		if _, err := call(who, "setAgentCapabilities", g.ID, `{"skills":[]}`); err != nil {
			t.Fatal(err)
		}
		same(g.ID, `{"agent_id":"`+g.ID+`","skills":[],"constraints":{},"tools":[],"kb_ids":[]}`)
		for body, field := range map[string]string{
			`{}`: "skills", `{"skills":[{"id":"x"}]}`: "skills[0].name", `{"skills":[{"id":"x","name":"x","success_rate":2}]}`: "skills[0].success_rate",
		} {
			_, err := call(who, "setAgentCapabilities", g.ID, body)
			if f := fault.From(err); f == nil || len(f.Fields) != 1 || f.Fields[0].Field != field {
				t.Errorf("%s: %v", body, err)
			}
		}
		_, err := call(who, "setAgentCapabilities", g.ID, `{"skills":[],"kb_ids":["`+ident.New()+`"]}`)
		if f := fault.From(err); f == nil || len(f.Fields) != 1 || f.Fields[0].Field != "kb_ids[0]" {
			t.Errorf("a knowledge base of another company: %v", err)
		}
		stranger := who
		stranger.TenantID = ident.New()
		for name, err := range map[string]error{
			"read":    second(call(stranger, "getAgentCapabilities", g.ID, "")),
			"write":   second(call(stranger, "setAgentCapabilities", g.ID, `{"skills":[]}`)),
			"unknown": second(call(who, "setAgentCapabilities", "x", `{"skills":[]}`)),
		} {
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for range 2 {
			if err := all.AgentDeleted(t.Context(), who.TenantID, g.ID); err != nil {
				t.Fatal(err)
			}
		}
		same(g.ID, `{"agent_id":"`+g.ID+`","skills":[{"id":"1","name":"Sums","description":"Adds.","input_types":[],"output_types":[],"avg_latency_ms":0,"success_rate":0}],
			"constraints":{"max_context_tokens":9000},"tools":["calculator"],"kb_ids":[]}`)
	})
}

func second(_ string, err error) error { return err }
