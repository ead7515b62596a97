package connectorclient_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/mcp/mcpsql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/delivery/integration"
	"agentd/internal/delivery/integration/integrationsql"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/wire/connectorclient"
	"agentd/internal/wire/mcpclient"
	"agentd/internal/wire/outbound"
)

type object = map[string]any

// operator is what the operator set.
type operator struct {
	clients  map[string]integration.Client
	disabled []string
}

func (o *operator) Client(provider string) (integration.Client, bool) {
	c, ok := o.clients[provider]
	return c, ok
}

func (o *operator) Disabled(connector string) bool { return slices.Contains(o.disabled, connector) }

// agents are all agents but one.
type agents struct{}

const nobody = "00000000-0000-7000-8000-000000000000"

func (agents) Check(_ context.Context, _, id string) error {
	if id == nobody {
		return fault.NewNotFound("agent")
	}
	return nil
}

// fixture is the service over a database and real connections.
type fixture struct {
	*integration.Service
	t        *testing.T
	clock    *clock.Fake
	operator *operator
	who      authz.Caller
	agent    string
}

func newFixture(t *testing.T, db *sqldb.DB) *fixture {
	t.Helper()
	f := &fixture{
		t: t, clock: clock.NewFake(), operator: &operator{clients: map[string]integration.Client{}}, agent: ident.New(),
		who: authz.Caller{TenantID: ident.New(), UserID: ident.New(), Role: authz.Owner},
	}
	kernel, _ := resourcetest.Deps(resourcesql.New(db), db)
	kernel.Clock = f.clock
	allow, err := outbound.ParseAllow("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	guarded := outbound.New(outbound.Config{Allow: allow})
	t.Cleanup(guarded.Close)
	registry, err := tool.NewRegistry(tool.Limits{}, tool.Builtins(f.clock)...)
	if err != nil {
		t.Fatal(err)
	}
	f.Service = integration.New(integration.Deps{
		Kernel: kernel, HTTP: connectorclient.HTTP{Guarded: guarded}, Databases: connectorclient.Databases{Guarded: guarded},
		Mailer: connectorclient.Mailer{Guarded: guarded}, Documents: integrationsql.New(db), OAuth: mcpclient.NewOAuth(guarded.Transport()),
		Grants: mcpsql.New(db), Operator: f.operator, Registry: registry, Clock: f.clock, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		CheckURL: outbound.CheckURL, Base: func() string { return "https://agentd.example" },
	})
	f.Connect(agents{})
	return f
}

func eachDB(t *testing.T, test func(f *fixture)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(newFixture(t, db)) })
}

// onSQLite is for tests of what is the same on every database.
func onSQLite(t *testing.T) *fixture {
	t.Helper()
	return newFixture(t, sqldbtest.Open(t, sqldbtest.SQLite))
}

// do calls an operation by its id, with values for the parameters of its path in their
// order, as a caller.
func (f *fixture) doAs(who authz.Caller, id string, body any, path ...string) (object, error) {
	f.t.Helper()
	routes := f.Routes()
	r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == id })]
	in := reflect.New(r.In)
	for i := range r.In.NumField() {
		field := r.In.Field(i)
		if field.Tag.Get("path") != "" {
			in.Elem().Field(i).SetString(path[0])
			path = path[1:]
		}
		if field.Tag.Get("query") != "" && len(path) > 0 {
			in.Elem().Field(i).SetString(path[0])
			path = path[1:]
		}
		if field.Name == "Body" {
			text, err := json.Marshal(body)
			if err != nil {
				f.t.Fatal(err)
			}
			if err := schema.For(field.Type).DecodeInto(text, in.Elem().Field(i).Addr().Interface(), false); err != nil {
				return nil, err
			}
		}
	}
	out, err := r.Call(f.t.Context(), who, in.Interface())
	if err != nil {
		return nil, err
	}
	if reply, ok := out.(*route.Reply); ok {
		return object{"status": reply.Status}, nil
	}
	text, err := json.Marshal(out)
	if err != nil {
		f.t.Fatal(err)
	}
	var got object
	if err := json.Unmarshal(text, &got); err != nil {
		f.t.Fatal(err)
	}
	return got, nil
}

func (f *fixture) do(id string, body any, path ...string) (object, error) {
	f.t.Helper()
	return f.doAs(f.who, id, body, path...)
}

// must is do for what has to succeed.
func (f *fixture) must(id string, body any, path ...string) object {
	f.t.Helper()
	got, err := f.do(id, body, path...)
	if err != nil {
		f.t.Fatalf("%s: %v", id, err)
	}
	return got
}

// add makes an integration that is linked to the agent.
func (f *fixture) add(connector string, config object) object {
	f.t.Helper()
	return f.must("createIntegration", object{"connector_id": connector, "name": connector, "config": config, "agent_id": f.agent})
}

// call calls a tool of the agent.
func (f *fixture) call(name string, arguments any) tool.Result {
	f.t.Helper()
	set, err := f.Tools(f.t.Context(), f.who.TenantID, f.agent)
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := json.Marshal(arguments, json.Deterministic(true))
	if err != nil {
		f.t.Fatal(err)
	}
	res, err := set.Call(f.t.Context(), tool.Call{TenantID: f.who.TenantID, AgentID: f.agent, StepID: "step-1", Name: name, Arguments: string(text)})
	if err != nil {
		f.t.Fatal(err)
	}
	return res
}

// toolNames returns what the agent is offered.
func (f *fixture) toolNames() (names []string) {
	f.t.Helper()
	set, err := f.Tools(f.t.Context(), f.who.TenantID, f.agent)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range set.Specs() {
		names = append(names, s.Name)
	}
	return names
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, body, json.Deterministic(true)) // the client left
}
