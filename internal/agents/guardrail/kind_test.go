package guardrail_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"agentd/internal/agents/guardrail"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/memstore"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/wire/outbound"
)

const (
	path = "/api/v1/guardrails"
	item = path + "/{guardrailId}"
)

func TestKind(t *testing.T) {
	t.Parallel()
	build := func(deps resource.Deps) *resource.Store[guardrail.Guardrail] {
		return newGuardrails(deps, rig{}).Store()
	}
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		resourcetest.Kind(t, resourcesql.New(db), db, build, samples)
	})
}

var samples = resourcetest.Samples{
	Minimal: `{"name":"n","kind":"keyword","stage":"input","config":{"keywords":["x"]}}`,
	Defaults: map[string]string{
		"action": `"block"`, "enabled": `true`, "config": `{"keywords":["x"]}`, "kind": `"keyword"`, "stage": `"input"`, "phase": `"input"`,
	},
	Full: `{"name":"full","kind":"webhook","stage":"both","phase":"both","action":"warn","enabled":false,"config":{"on_error":"allow"},
		"webhook_url":"https://example.com/check","timeout_ms":700,"secret":"hush"}`,
	Refused: []resourcetest.Refused{
		{Body: `{}`, Fields: []string{"name", "kind", "phase"}},
		{Body: `{"name":"n"}`, Fields: []string{"kind", "phase"}},
		{Body: `{"name":"n","kind":"pii","phase":"before"}`, Fields: []string{"phase"}},
		{Body: `{"name":" ","kind":"pii","stage":"input"}`, Fields: []string{"name"}},
		{Body: `{"name":"n","kind":"magic","stage":"before","action":"explode"}`, Fields: []string{"kind", "stage", "action", "phase"}},
		{Body: `{"name":"n","kind":"regex","stage":"input"}`, Fields: []string{"config.patterns"}},
		{Body: `{"name":"n","kind":"regex","stage":"input","config":{"patterns":["ok","(","a*"],"pattern":"[z-a]"}}`, Fields: []string{"config.patterns[1]", "config.patterns[2]", "config.pattern"}},
		{Body: `{"name":"n","kind":"regex","stage":"input","config":{"pattern":"(a{900}b{900}c{900})"}}`, Fields: []string{"config.pattern"}},
		{Body: `{"name":"n","kind":"regex","stage":"input","config":{"pattern":7,"on_error":"maybe","part":"x"}}`, Fields: []string{"config.pattern", "config.on_error", "config.part"}},
		{Body: `{"name":"n","kind":"keyword","stage":"input","config":{}}`, Fields: []string{"config.keywords"}},
		{Body: `{"name":"n","kind":"keyword","stage":"input","config":{"keywords":["a"," "]}}`, Fields: []string{"config.keywords[1]"}},
		{Body: `{"name":"n","kind":"pii","stage":"output","config":{"entities":["email","shoe_size"]}}`, Fields: []string{"config.entities[1]"}},
		{Body: `{"name":"n","kind":"cel","stage":"tool","config":{}}`, Fields: []string{"config.expression"}},
		{Body: `{"name":"n","kind":"cel","stage":"tool","config":{"expression":"amount > 1"}}`, Fields: []string{"config.expression"}},
		{Body: `{"name":"n","kind":"cel","stage":"tool","config":{"expression":"'text'"}}`, Fields: []string{"config.expression"}},
		{Body: `{"name":"n","kind":"judge","stage":"input","config":{"threshold":2}}`, Fields: []string{"config.prompt", "config.threshold"}},
		{Body: `{"name":"n","kind":"webhook","stage":"input"}`, Fields: []string{"webhook_url"}},
		{Body: `{"name":"n","kind":"webhook","stage":"input","webhook_url":"http://0x7f.1/"}`, Fields: []string{"webhook_url"}},
		{Body: `{"name":"n","kind":"webhook","stage":"input","config":{"url":"ftp://example.com","timeout_ms":99999}}`, Fields: []string{"webhook_url", "timeout_ms"}},
		{Body: `{"name":"n","kind":"webhook","stage":"input","config":{"url":7}}`, Fields: []string{"config"}},
		{Body: `{"name":"n","kind":"webhook","stage":"output","phase":"input","webhook_url":"https://example.com"}`, Fields: []string{"phase"}},
		{Body: `{"name":"n","kind":"pii","stage":"input","webhook_url":"https://example.com","secret":"s"}`, Fields: []string{"webhook_url", "secret"}},
		{Body: `{"name":"n","webhook_url":"https://example.com","phase":"never","timeout_ms":0}`, Fields: []string{"phase", "timeout_ms"}},
	},
	Changes: []resourcetest.Changed{
		{Patch: `{"phase":"output"}`, Want: map[string]string{"stage": `"output"`, "phase": `"output"`}},
		{Patch: `{"stage":"input"}`, Want: map[string]string{"stage": `"input"`, "phase": `"input"`}},
		{Patch: `{"stage":"tool"}`, Want: map[string]string{"stage": `"tool"`, "phase": `"tool"`}},
		{Patch: `{"action":"redact","enabled":true}`, Want: map[string]string{"action": `"redact"`, "enabled": `true`, "timeout_ms": `700`}},
		{Patch: `{"timeout_ms":null}`, Want: map[string]string{"timeout_ms": `5000`}},
		{Patch: `{"config":{"url":"https://example.org/","secret":"other","on_error":"block"}}`, Want: map[string]string{
			"webhook_url": `"https://example.org/"`, "config": `{"on_error":"block"}`, "secret": `"[redacted]"`,
		}},
		{Patch: `{"kind":"pii","webhook_url":null,"secret":null,"config":{"entities":["email"]}}`, Want: map[string]string{
			"config": `{"entities":["email"]}`, "kind": `"pii"`, "stage": `"both"`, "phase": `"both"`, "timeout_ms": "", "webhook_url": "", "secret": "",
		}},
	},
}

// rig is what guardrails are made with in a test.
type rig struct {
	models guardrail.Models
	client model.Client
	hooks  guardrail.Hooks
	spent  func(policy.Run, model.Target, model.Usage)
}

func newGuardrails(deps resource.Deps, r rig) *guardrail.Guardrails {
	return guardrail.New(deps, guardrail.Options{
		CheckURL: outbound.CheckURL, Models: r.models, Client: r.client, Hooks: r.hooks, OnUsage: r.spent,
		Logger: slog.New(slog.DiscardHandler),
	})
}

// bench is guardrails over memory, with somebody who writes them.
type bench struct {
	resourcetest.Client
	all     *guardrail.Guardrails
	gate    guardrail.Gate
	backend *counting
	deps    resource.Deps
}

// counting counts reads.
type counting struct {
	*memstore.Store
	reads int
	fail  error
}

func (c *counting) Get(ctx context.Context, kind, tenant, id string) (resource.Doc, error) {
	c.reads++
	if c.fail != nil {
		return resource.Doc{}, c.fail
	}
	return c.Store.Get(ctx, kind, tenant, id)
}

func newBench(t testing.TB, r rig) *bench {
	t.Helper()
	s := memstore.New()
	backend := &counting{Store: s}
	deps, _ := resourcetest.Deps(backend, s)
	all := newGuardrails(deps, r)
	return &bench{resourcetest.NewClient(all.Routes()), all, guardrail.Gate{All: all}, backend, deps}
}

// make creates a guardrail and gives its id.
func (b *bench) make(t testing.TB, body string) string {
	t.Helper()
	reply, err := b.Do(t.Context(), "POST", path, resourcetest.Args{"": body})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	_, id, _ := strings.Cut(string(reply.JSON), `"guardrail_id":"`)
	return id[:36]
}

func TestReferenceForm(t *testing.T) {
	t.Parallel()
	b := newBench(t, rig{})
	for body, want := range map[string]map[string]any{
		`{"name":"n","webhook_url":"https://example.com/x","phase":"both"}`: {
			"kind": "webhook", "stage": "both", "phase": "both", "action": "block", "timeout_ms": 5000.0, "webhook_url": "https://example.com/x",
		},
		`{"name":"n","webhook_url":"https://example.com/x","phase":"input","action":"log","timeout_ms":90,"secret":"s"}`: {
			"kind": "webhook", "stage": "input", "phase": "input", "action": "log", "timeout_ms": 90.0, "secret": "[redacted]",
		},
		`{"name":"n","kind":"webhook","stage":"tool","config":{"webhook_url":"https://example.com/x","secret":"s","timeout_ms":80,"on_error":"allow"}}`: {
			"kind": "webhook", "stage": "tool", "phase": "tool", "timeout_ms": 80.0, "secret": "[redacted]", "webhook_url": "https://example.com/x",
		},
	} {
		reply, err := b.Do(t.Context(), "POST", path, resourcetest.Args{"": body})
		if err != nil {
			t.Fatal(err)
		}
		got := resourcetest.Object(t, reply)
		for name, v := range want {
			if got[name] != v {
				t.Errorf("%s gives %s %v, want %v", body, name, got[name], v)
			}
		}
		if strings.Contains(string(reply.JSON), `"s"`) {
			t.Errorf("the secret is answered: %s", reply.JSON)
		}
		doc, err := b.backend.Get(t.Context(), "guardrail", b.Who.TenantID, got["guardrail_id"].(string))
		if err != nil || strings.Contains(string(doc.Body), `"s"`) {
			t.Errorf("stored as %s, %v", doc.Body, err)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	b := newBench(t, rig{})
	list := func() map[string]any {
		t.Helper()
		reply, err := b.Do(t.Context(), "GET", path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return resourcetest.Object(t, reply)
	}
	if got := list(); got["total"] != 0.0 || len(got["guardrails"].([]any)) != 0 {
		t.Errorf("listed %v", got)
	}
	var last string
	for i := range guardrail.MaxGuardrails {
		last = b.make(t, fmt.Sprintf(`{"name":"%d","kind":"pii","stage":"input"}`, i))
	}
	all := list()
	items := all["guardrails"].([]any)
	if all["total"] != float64(guardrail.MaxGuardrails) || len(items) != guardrail.MaxGuardrails || items[0].(map[string]any)["guardrail_id"] != last {
		t.Errorf("listed %v of %v", len(items), all["total"])
	}
	_, err := b.Do(t.Context(), "POST", path, resourcetest.Args{"": samples.Minimal})
	resourcetest.WantFault(t, err, fault.Invalid, "limit_reached")
	if _, err := b.Do(t.Context(), "DELETE", item, resourcetest.Args{"guardrailId": last}); err != nil {
		t.Fatal(err)
	}
	b.make(t, samples.Minimal)
	stranger := resourcetest.NewClient(b.Routes)
	reply, err := stranger.Do(t.Context(), "GET", path, nil)
	if err != nil || resourcetest.Object(t, reply)["total"] != 0.0 {
		t.Errorf("a stranger sees %s, %v", reply.JSON, err)
	}
}

func TestWritersAreAdmins(t *testing.T) {
	t.Parallel()
	for _, r := range newBench(t, rig{}).Routes {
		role, scope := authz.Role(""), authz.Scope("guardrails:read")
		if r.Method != "GET" {
			role, scope = authz.Admin, "guardrails:write"
		}
		if r.Role != role || len(r.Scopes) != 1 || r.Scopes[0] != scope {
			t.Errorf("%s wants %v and %q", r.ID, r.Scopes, r.Role)
		}
	}
}
