package assurance_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/governance/assurance"
	"agentd/internal/governance/ledger"
	"agentd/internal/governance/permission"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

type fixedClock struct{ clock.Clock }

func (fixedClock) Now() time.Time { return now }

// world is a company with an agent.
type world struct {
	t      *testing.T
	a      *assurance.Assurance
	who    authz.Caller
	agent  *agent.Agent
	agents *resource.Store[agent.Agent]
	kinds  []string // of the entries in the ledger
}

// AppendTx implements ledger.Appender.
func (w *world) AppendTx(tx txn.Tx, _ string, e ledger.Entry) error {
	tx.AfterCommit(func() { w.kinds = append(w.kinds, e.Kind+" "+e.SubjectAgentID) })
	return nil
}

func newWorld(t *testing.T, db *sqldb.DB) *world {
	t.Helper()
	deps, _ := resourcetest.Deps(resourcesql.New(db), db)
	w := &world{t: t, who: authz.Caller{TenantID: ident.New(), UserID: "ada", Role: authz.Admin}}
	agents := agent.New(deps, agent.Options{CheckURL: func(string) error { return nil }, Classified: assurance.Classified(w)}).Store()
	w.agents = agents
	sets := permission.New(deps, permission.Options{}).Sets()
	w.a = assurance.New(deps, assurance.Options{Clock: fixedClock{}, Ledger: w, Agents: agents, Permissions: sets})
	w.agent = agents.Blank()
	w.agent.Name = "Clerk"
	if err := agents.Create(t.Context(), w.who, w.agent); err != nil {
		t.Fatal(err)
	}
	return w
}

// call calls an operation with a JSON body, "" for none, and returns its answer.
func (w *world) call(who authz.Caller, id, agentID, body string) (map[string]any, error) {
	w.t.Helper()
	routes := w.a.Routes()
	r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == id })]
	in := reflect.New(r.In)
	in.Elem().FieldByName("AgentID").SetString(agentID)
	if body != "" {
		f := in.Elem().FieldByName("Body")
		if err := schema.For(f.Type()).Check([]byte(body), false); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(body), f.Addr().Interface()); err != nil {
			w.t.Fatal(err)
		}
	}
	out, err := r.Call(w.t.Context(), who, in.Interface())
	if err != nil {
		return nil, err
	}
	var text []byte
	if reply, ok := out.(*route.Reply); ok {
		text = reply.JSON
	} else if text, err = json.Marshal(out); err != nil {
		w.t.Fatal(err)
	}
	answer := map[string]any{}
	if err := json.Unmarshal(text, &answer); err != nil {
		w.t.Fatalf("%s answers %s: %v", id, text, err)
	}
	return answer, nil
}

const (
	classify = "updateAgentRiskClassification"
	getClass = "getAgentRiskClassification"
	assess   = "createAgentFria"
	getFria  = "getAgentFria"

	high = `{"level":"high","annex_iii_category":"employment","justification":"It reads applications","assessor":"Ada",
		"assessed_at":"2026-11-01T00:00:00Z","review_due_at":"2027-11-01T00:00:00Z"}`
	limited = `{"level":"limited","justification":"It talks with customers","assessor":"Ada","review_due_at":"2027-11-01T00:00:00Z"}`
	minimal = `{"level":"minimal","justification":"It adds numbers","assessor":"Ada","review_due_at":"2027-11-01T00:00:00Z"}`
	fria    = `{"rights_assessed":[{"right":"non-discrimination","impact":"medium","justification":"It sorts people","mitigation":"A person decides"}],
		"mitigations":"Samples are read weekly","assessor":"Grace","next_review":"2027-05-01T00:00:00Z"}`
)

func TestRiskClassification(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		if _, err := w.call(w.who, getClass, w.agent.ID, ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("an agent without a class: %v", err)
		}
		first, err := w.call(w.who, classify, w.agent.ID, high)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"level": "high", "annex_iii_category": "employment", "justification": "It reads applications", "assessor": "Ada",
			"assessed_at": "2026-11-01T00:00:00Z", "review_due_at": "2027-11-01T00:00:00Z",
		}
		if first["name"] != "Clerk" || !cmp.Equal(first["risk_classification"], any(want)) {
			t.Errorf("the answer is not the agent with its class: %v", first)
		}
		// The next one replaces it: the category is gone, and the time is now.
		if _, err := w.call(w.who, classify, w.agent.ID, limited); err != nil {
			t.Fatal(err)
		}
		got, err := w.call(w.who, getClass, w.agent.ID, "")
		if diff := cmp.Diff(got, map[string]any{
			"level": "limited", "justification": "It talks with customers", "assessor": "Ada",
			"assessed_at": "2026-11-23T12:00:00Z", "review_due_at": "2027-11-01T00:00:00Z",
		}); diff != "" || err != nil {
			t.Error(diff, err)
		}
		entry := "agent.risk_classified " + w.agent.ID
		if !slices.Equal(w.kinds, []string{entry, entry}) {
			t.Errorf("the ledger has %v", w.kinds)
		}
	})
}

func TestFRIA(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		if _, err := w.call(w.who, getFria, w.agent.ID, ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("an agent without an assessment: %v", err)
		}
		for _, class := range []string{"", minimal} {
			if class != "" {
				if _, err := w.call(w.who, classify, w.agent.ID, class); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.call(w.who, assess, w.agent.ID, fria); !fault.Is(err, fault.Invalid) {
				t.Errorf("class %q: %v", class, err)
			}
		}
		for _, step := range []struct{ class, level string }{{high, "high"}, {limited, "limited"}} {
			if _, err := w.call(w.who, classify, w.agent.ID, step.class); err != nil {
				t.Fatal(err)
			}
			if _, err := w.call(w.who, assess, w.agent.ID, fria); err != nil {
				t.Fatal(err)
			}
			got, err := w.call(w.who, getFria, w.agent.ID, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range []string{"tenant_id", "created_at", "updated_at"} {
				delete(got, field)
			}
			if diff := cmp.Diff(got, map[string]any{
				"agent_id": w.agent.ID, "risk_level": step.level, "assessed_at": "2026-11-23T12:00:00Z",
				"rights_assessed": []any{map[string]any{
					"right": "non-discrimination", "impact": "medium", "justification": "It sorts people", "mitigation": "A person decides",
				}},
				"mitigations": "Samples are read weekly", "assessor": "Grace", "next_review": "2027-05-01T00:00:00Z",
			}); diff != "" {
				t.Error(diff)
			}
		}
		if !slices.Contains(w.kinds, "agent.fria_updated "+w.agent.ID) {
			t.Errorf("the ledger has %v", w.kinds)
		}
		for range 2 { // a change may be delivered twice
			if err := w.a.AgentDeleted(t.Context(), w.who.TenantID, w.agent.ID); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.call(w.who, getFria, w.agent.ID, ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("after the agent was deleted: %v", err)
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		if _, err := w.call(w.who, classify, w.agent.ID, high); err != nil {
			t.Fatal(err)
		}
		if _, err := w.call(w.who, assess, w.agent.ID, fria); err != nil {
			t.Fatal(err)
		}
		stranger := authz.Caller{TenantID: ident.New(), Role: authz.Admin}
		for _, tt := range []struct{ id, body string }{{classify, high}, {getClass, ""}, {assess, fria}, {getFria, ""}, {"getAgentSystemCard", ""}} {
			for id, who := range map[string]authz.Caller{w.agent.ID: stranger, "none": w.who, ident.New(): w.who} {
				if _, err := w.call(who, tt.id, id, tt.body); !fault.Is(err, fault.NotFound) {
					t.Errorf("%s of %s: %v", tt.id, id, err)
				}
			}
		}
		for _, tt := range []struct {
			id, body string
			fields   []string
		}{
			{classify, `{}`, []string{"level", "justification", "assessor", "review_due_at"}},
			{classify, `{"level":"x","annex_iii_category":"x","justification":"x","assessor":"x","review_due_at":"soon"}`,
				[]string{"level", "annex_iii_category", "review_due_at"}},
			{classify, `{"level":"high","justification":" ","assessor":"\t","review_due_at":"2027-11-01T00:00:00Z"}`, []string{"justification", "assessor"}},
			{assess, `{}`, []string{"rights_assessed", "mitigations", "assessor", "next_review"}},
			{assess, `{"rights_assessed":[],"mitigations":"","assessor":"x","next_review":"2027-11-01T00:00:00Z"}`, []string{"rights_assessed"}},
			{assess, `{"rights_assessed":[{"right":" ","impact":"none","justification":" "}],"mitigations":"","assessor":" ","next_review":"2027-11-01T00:00:00Z"}`,
				[]string{"assessor", "rights_assessed[0].right", "rights_assessed[0].justification"}},
			{assess, `{"rights_assessed":[{"right":"x","impact":"huge"}],"mitigations":"","assessor":"x","next_review":"2027-11-01T00:00:00Z"}`,
				[]string{"rights_assessed[0].impact", "rights_assessed[0].justification"}},
		} {
			_, err := w.call(w.who, tt.id, w.agent.ID, tt.body)
			var fields []string
			for _, f := range fault.From(err).Fields {
				fields = append(fields, f.Field)
			}
			slices.Sort(fields)
			slices.Sort(tt.fields)
			if !fault.Is(err, fault.Invalid) || !slices.Equal(fields, tt.fields) {
				t.Errorf("%s: %v, wrong are %q, want %q", tt.body, err, fields, tt.fields)
			}
		}
	})
}

// Only an admin classifies an agent, also by changing the agent itself, and the ledger
// has each change.
func TestWhoClassifies(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		developer := w.who
		developer.Role = authz.Developer
		patch := func(who authz.Caller, patch string) error {
			return db.Write(t.Context(), func(tx txn.Tx) error {
				_, err := w.agents.PatchTx(tx, who, w.agent.ID, jsontext.Value(patch))
				return err
			})
		}
		if err := patch(developer, `{"risk_classification":{"level":"minimal"}}`); !fault.Is(err, fault.Forbidden) {
			t.Errorf("by a developer: %v", err)
		}
		class := `{"level":"high","annex_iii_category":"education","justification":"It marks","assessor":"Ada",` +
			`"assessed_at":"2026-11-01T00:00:00Z","review_due_at":"2027-11-01T00:00:00Z"}`
		if err := patch(w.who, `{"risk_classification":`+class+`}`); err != nil {
			t.Errorf("by an admin: %v", err)
		}
		got, err := w.call(developer, getClass, w.agent.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(resourcetest.Object(t, &route.Reply{JSON: []byte(class)}), got); diff != "" {
			t.Errorf("the class (-want +got):\n%s", diff)
		}
		if err := patch(developer, `{"risk_classification":`+class+`,"name":"Clerk the second"}`); err != nil {
			t.Errorf("the same by a developer: %v", err)
		}
		if err := patch(developer, `{"risk_classification":null}`); !fault.Is(err, fault.Forbidden) {
			t.Errorf("removed by a developer: %v", err)
		}
		if err := patch(w.who, `{"risk_classification":null}`); err != nil {
			t.Errorf("removed by an admin: %v", err)
		}
		made := w.agents.Blank()
		made.Name, made.RiskClassification = "Another", []byte(`{"level":"minimal"}`)
		if err := w.agents.Create(t.Context(), developer, made); !fault.Is(err, fault.Forbidden) {
			t.Errorf("created by a developer: %v", err)
		}
		if want := slices.Repeat([]string{"agent.risk_classified " + w.agent.ID}, 2); !slices.Equal(w.kinds, want) {
			t.Errorf("the ledger has %v", w.kinds)
		}
	})
}
