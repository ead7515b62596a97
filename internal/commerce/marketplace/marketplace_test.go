package marketplace_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/commerce/marketplace"
	"agentd/internal/commerce/marketplace/marketplacesql"
	"agentd/internal/execution/run"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

type object = map[string]any

// market is the service, with agents that all exist and runs that do what tests say.
type market struct {
	*marketplace.Service
	t     *testing.T
	db    *sqldb.DB
	clock *clock.Fake
	runs  []run.Request
	who   []authz.Caller // of the runs
	fails error          // of the creation of runs
}

func (m *market) Get(_ context.Context, tenant, id string) (agent.Agent, error) {
	if id == nobody {
		return agent.Agent{}, fault.NewNotFound("agent")
	}
	return agent.Agent{}, nil
}

const nobody = "00000000-0000-7000-8000-000000000000"

func (m *market) Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error) {
	if m.fails != nil {
		return nil, m.fails
	}
	err := m.db.Write(ctx, func(tx txn.Tx) error {
		_, err := req.Admit(tx, &run.Record{})
		return err
	})
	m.runs, m.who = append(m.runs, req), append(m.who, who)
	return &run.Run{}, err
}

// end brings the newest run to a state.
func (m *market) end(status run.Status, output string) {
	m.t.Helper()
	at := len(m.runs) - 1
	r := &run.Record{Run: run.Run{
		RunID: m.runs[at].RunID, TenantID: m.who[at].TenantID, Status: status, Metadata: m.runs[at].Metadata, Output: schema.Nullable(output),
		Metrics: run.Metrics{DurationMS: 1500, InputTokens: 1500, OutputTokens: 500},
	}}
	if err := m.db.Write(m.t.Context(), func(tx txn.Tx) error { return m.OnRunState(tx, r) }); err != nil {
		m.t.Fatal(err)
	}
}

func each(t *testing.T, test func(t *testing.T, m *market)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		m := &market{t: t, db: db, clock: clock.NewFake()}
		m.Service = marketplace.New(marketplace.Deps{
			Store: marketplacesql.New(db), Writer: db, Counters: resourcesql.NewCounters(db), Cursors: page.NewCursors(make([]byte, 32)),
			Clock: m.clock, Suspended: func(context.Context, string) (bool, error) { return false, nil },
		})
		m.Connect(m, m)
		test(t, m)
	})
}

func company() authz.Caller {
	return authz.Caller{TenantID: ident.New(), UserID: ident.New(), Role: authz.Owner}
}

// do calls an operation by its id, with values by the names of parameters.
func (m *market) do(who authz.Caller, id string, body any, values ...string) (object, error) {
	m.t.Helper()
	routes := m.Routes()
	r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == id })]
	in := reflect.New(r.In)
	for i := range r.In.NumField() {
		field := r.In.Field(i)
		if field.Name == "Body" {
			text, err := json.Marshal(body)
			if err != nil {
				m.t.Fatal(err)
			}
			if err := schema.For(field.Type).DecodeInto(text, in.Elem().Field(i).Addr().Interface(), false); err != nil {
				return nil, err
			}
			continue
		}
		for j := 0; j < len(values); j += 2 {
			if values[j] == field.Tag.Get("path")+field.Tag.Get("query") {
				in.Elem().Field(i).SetString(values[j+1])
			}
		}
	}
	out, err := r.Call(m.t.Context(), who, in.Interface())
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(out)
	if err != nil {
		m.t.Fatal(err)
	}
	var got object
	if err := json.Unmarshal(text, &got); err != nil {
		m.t.Fatal(err)
	}
	return got, nil
}

func (m *market) must(who authz.Caller, id string, body any, values ...string) object {
	m.t.Helper()
	got, err := m.do(who, id, body, values...)
	if err != nil {
		m.t.Fatalf("%s: %v", id, err)
	}
	return got
}

// list publishes an agent.
func (m *market) list(who authz.Caller, name string, more object) string {
	m.t.Helper()
	body := object{"agent_id": ident.New(), "name": name, "category": "research", "publish": true}
	maps.Copy(body, more)
	return m.must(who, "createMarketplaceListing", body)["listing_id"].(string)
}

func (m *market) names(query ...string) (names []string) {
	m.t.Helper()
	for _, l := range m.must(company(), "searchMarketplace", nil, query...)["items"].([]any) {
		names = append(names, l.(object)["name"].(string))
	}
	return names
}
