package mcp_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"agentd/internal/agents/mcp"
	"agentd/internal/agents/mcp/mcpsql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// remote is servers that say what the test wants.
type remote struct {
	mu     sync.Mutex
	tools  map[string][]mcp.RemoteTool // by URL
	fails  map[string]error
	lists  atomic.Int64
	caps   []string
	called []string
	header string
	key    mcp.CallKey // of the last call
}

func (r *remote) List(ctx context.Context, t *mcp.Target) (*mcp.Listing, error) {
	r.lists.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fails[t.URL]; err != nil {
		if t.Tokens == nil {
			return nil, err
		}
		if token, tokenErr := t.Tokens.Token(ctx, ""); tokenErr != nil || token == "" {
			return nil, err
		}
	}
	return &mcp.Listing{Version: uint64(len(t.URL)), Tools: r.tools[t.URL], Capabilities: r.caps}, nil
}

func (r *remote) Probe(ctx context.Context, t *mcp.Target) (*mcp.Listing, error) {
	return r.List(ctx, t)
}

func (r *remote) Call(_ context.Context, t *mcp.Target, name string, arguments jsontext.Value, key mcp.CallKey) (tool.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key = key
	r.called = append(r.called, t.Name+"/"+name+string(arguments))
	r.header = t.Header + ": " + t.HeaderValue.Reveal()
	return tool.Result{Output: "done"}, r.fails["call"]
}

func (r *remote) Read(_ context.Context, t *mcp.Target, uri string) (tool.Result, error) {
	return tool.Result{Output: t.Name + " reads " + uri}, nil
}

func (r *remote) Forget(string, string) {}

// everybody is an agent.
type everybody struct{}

func (everybody) Check(context.Context, string, string) error { return nil }

// counting counts the lists that reach the database.
type counting struct {
	resource.Backend
	lists atomic.Int64
}

func (c *counting) List(ctx context.Context, q resource.Query) ([]resource.Doc, error) {
	c.lists.Add(1)
	return c.Backend.List(ctx, q)
}

// swappable is a port that a test can replace.
type swappable struct{ mcp.Remote }

type fixture struct {
	*mcp.Service
	t       *testing.T
	port    *swappable
	remote  *remote
	oauth   *provider
	clock   *clock.Fake
	backend *counting
	who     authz.Caller
}

func newFixture(t *testing.T, db *sqldb.DB) *fixture {
	t.Helper()
	f := &fixture{
		t: t, remote: &remote{tools: map[string][]mcp.RemoteTool{}, fails: map[string]error{}}, oauth: &provider{}, clock: clock.NewFake(),
		backend: &counting{Backend: resourcesql.New(db)}, who: authz.Caller{TenantID: ident.New(), UserID: ident.New(), Role: authz.Owner, SessionID: ident.New(), Method: "cookie"},
	}
	registry, err := tool.NewRegistry(tool.Limits{}, tool.Builtins(f.clock)...)
	if err != nil {
		t.Fatal(err)
	}
	box, err := secret.NewBox([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	f.port = &swappable{f.remote}
	f.Service = mcp.New(mcp.Config{
		Kernel: resource.Deps{Backend: f.backend, Writer: db, Outbox: resource.NoOutbox{}, Cursors: page.NewCursors(make([]byte, 32)), Clock: f.clock, Box: box},
		Remote: f.port, OAuth: f.oauth, Grants: mcpsql.New(db), Registry: registry,
		Clock: f.clock, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), CheckURL: func(string) error { return nil },
		Commands: map[string]mcp.Command{"/usr/bin/weather": permissive{}}, Base: func() string { return "https://agentd.example" },
		Names: func(_ context.Context, _, user string) (string, string) {
			if user == f.who.UserID {
				return "Acme", "Ann"
			}
			return "Acme", ""
		},
	})
	f.Connect(everybody{}, nil)
	return f
}

// permissive is a command of which tenants may set anything.
type permissive struct{}

func (permissive) AllowsArg(string) bool      { return true }
func (permissive) AllowsVariable(string) bool { return true }

// do calls an operation by its id. in is what the row's In has, by field.
func (f *fixture) do(id, serverID, body string) (any, error) {
	f.t.Helper()
	routes := f.Routes()
	i := slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == id })
	return call(f.t.Context(), routes[i], f.who, serverID, body)
}

func object(name string) jsontext.Value {
	return jsontext.Value(`{"type":"object","properties":{"` + name + `":{"type":"string"}}}`)
}

// add registers a server and gives its id.
func (f *fixture) add(body string) string {
	f.t.Helper()
	out, err := f.do("createMcpServer", "", body)
	if err != nil {
		f.t.Fatal(err)
	}
	return member(f.t, out, "id")
}

func names(set tool.Set) (all []string) {
	for _, s := range set.Specs() {
		all = append(all, s.Name)
	}
	return all
}

func (f *fixture) tools(agent, mcpField string) tool.Set {
	f.t.Helper()
	set, err := f.Tools(f.t.Context(), f.who.TenantID, agent, schema.Object(mcpField))
	if err != nil {
		f.t.Fatal(err)
	}
	return set
}

func eachDB(t *testing.T, test func(f *fixture)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(newFixture(t, db)) })
}

// What an agent gets is what its servers have: prefixed where names clash, as
// far as it is allowed, without what is broken.
func TestTools(t *testing.T) {
	t.Parallel()
	eachDB(t, func(f *fixture) {
		t := f.t
		f.remote.caps = []string{"resources", "tools"}
		f.remote.tools["https://a.example"] = []mcp.RemoteTool{
			{Name: "search", Description: "A's", Schema: object("q"), ReadOnly: true},
			{Name: "calculator", Schema: object("q"), Idempotent: true},
			{Name: "broken", Schema: jsontext.Value(`{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json"}}}`)},
			{Name: "no_object", Schema: jsontext.Value(`{"type":"string"}`)},
		}
		f.remote.tools["https://b.example"] = []mcp.RemoteTool{{Name: "search", Schema: object("q")}, {Name: "only.b", Schema: object("q")}}
		f.remote.fails["https://down.example"] = fault.New(fault.Unavailable, "", "It is down.")
		f.add(`{"name":"A","transport":"http","url":"https://a.example","assigned_agent_ids":["me"]}`)
		f.add(`{"name":"B","transport":"streamable_http","url":"https://b.example","assigned_agent_ids":["me"],"auth":{"type":"api_key","header":"X-Key","secret":"s3"}}`)
		f.add(`{"name":"Down","transport":"http","url":"https://down.example","assigned_agent_ids":["me"]}`)
		f.add(`{"name":"Off","transport":"http","url":"https://a.example","assigned_agent_ids":["me"],"enabled":false}`)
		f.add(`{"name":"Other","transport":"http","url":"https://a.example","assigned_agent_ids":["other"]}`)

		if got := names(f.tools("me", `{}`)); !slices.Equal(got, []string{"a_search", "a_calculator", "b_search", "only_b"}) {
			t.Errorf("tools = %v", got)
		}
		if got := names(f.tools("nobody", `{}`)); got != nil {
			t.Errorf("an agent without servers has %v", got)
		}
		set := f.tools("me", `{"allowed_tools":["b/sea*","calculator"],"allowed_resources":["file:///ok/*"]}`)
		if got := names(set); !slices.Equal(got, []string{"a_calculator", "a_read_resource", "b_search", "b_read_resource"}) {
			t.Errorf("allowed tools = %v", got)
		}
		if a, _ := set.Lookup("a_calculator"); !a.Idempotent || a.ReadOnly || !a.Repeatable() {
			t.Errorf("annotations are lost: %+v", a)
		}
		run := func(name, arguments string) tool.Result {
			res, err := set.Call(t.Context(), tool.Call{Name: name, Arguments: arguments})
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		if res := run("b_search", `{"q":"x"}`); res.Output != "done" || f.remote.called[0] != `B/search{"q":"x"}` || f.remote.header != "X-Key: s3" {
			t.Errorf("%+v, %v, %s", res, f.remote.called, f.remote.header)
		}
		if res := run("b_search", `{"q":7}`); !res.Failed || len(f.remote.called) != 1 {
			t.Errorf("arguments that do not fit reach the server: %+v", res)
		}
		if res := run("a_read_resource", `{"uri":"file:///ok/a"}`); res.Output != "A reads file:///ok/a" {
			t.Errorf("a resource: %+v", res)
		}
		if res := run("a_read_resource", `{"uri":"file:///etc/passwd"}`); !res.Failed {
			t.Errorf("a resource that is not allowed: %+v", res)
		}
		// What is taken from the agent while a run goes on is gone at once.
		if _, err := f.do("setAgentMcpServers", "me", `{"server_ids":[]}`); err != nil {
			t.Fatal(err)
		}
		if res := run("b_search", `{"q":"x"}`); !res.Failed || !strings.Contains(res.Output, "no longer available to this agent") {
			t.Errorf("after that: %+v", res)
		}
		// An own server, whose reference names nothing, adds nothing.
		own := `{"servers":[{"id":"1","name":"Own","transport":"http","url":"https://b.example"},
			{"id":"2","name":"Lost","transport":"http","url":"https://a.example","api_key_ref":"MCP_X"},
			{"id":"3","name":"Off","transport":"http","url":"https://a.example","enabled":false},
			{"id":"4","name":"Bad","transport":"stdio","command":"/bin/sh"}]}`
		if got := names(f.tools("me", own)); !slices.Equal(got, []string{"search", "only_b"}) {
			t.Errorf("own tools = %v", got)
		}
	})
}

// A tenant without servers costs a query a second, and a server that is
// registered here is seen at once.
func TestAny(t *testing.T) {
	t.Parallel()
	f := newFixture(t, sqldbtest.Open(t, sqldbtest.SQLite))
	has := func(field string) bool {
		found, err := f.Any(t.Context(), f.who.TenantID, "me", schema.Object(field))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for range 1000 {
		if has(`{}`) {
			t.Fatal("there are no servers")
		}
	}
	if n := f.backend.lists.Load(); n != 1 {
		t.Errorf("%d queries", n)
	}
	f.clock.Advance(2 * time.Second)
	has(`{}`)
	if n := f.backend.lists.Load(); n != 2 {
		t.Errorf("%d queries two seconds later", n)
	}
	f.add(`{"name":"A","transport":"http","url":"https://a.example","assigned_agent_ids":["me"]}`)
	if !has(`{}`) {
		t.Error("a new server is not seen")
	}
	if !has(`{"servers":[{"id":"x"}]}`) || has(`{"servers":[{"id":"x","enabled":false}],"allowed_tools":["x"]}`) == false {
		t.Error("an agent's own servers are not looked at as they are")
	}
}

// Whatever an agent's mcp field is, it is accepted or the wrong places are
// named; and runs of an agent that has it anyhow go on.
func FuzzField(f *testing.F) {
	f.Add(`{"servers":[{"id":"1","name":"Own","transport":"http","url":"https://b.example"}],"allowed_tools":["*"]}`)
	f.Add(`{"servers":[{"transport":"stdio","command":"/usr/bin/weather","args":["\u0000"],"env":{"LD_PRELOAD":"x"}}]}`)
	f.Add(`{"servers":{}}`)
	db := sqldbtest.Open(f, sqldbtest.SQLite)
	f.Fuzz(func(t *testing.T, text string) {
		if schema.Syntax([]byte(text)) != nil || len(text) == 0 || strings.TrimSpace(text)[0] != '{' {
			return
		}
		s := newFixture(t, db)
		for _, wrong := range s.CheckField(schema.Object(text)) {
			if !strings.HasPrefix(wrong.Field, "mcp") || wrong.Message == "" {
				t.Errorf("%+v", wrong)
			}
		}
		if _, err := s.Tools(t.Context(), s.who.TenantID, "me", schema.Object(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
