package archtest

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// layer is a floor of the house (docs/architecture.md).
type layer string

// The floors, lowest first, then what stands beside the house.
const (
	leaf    layer = "leaf"    // words that everything speaks
	port    layer = "port"    // the kernel and the interfaces between slices and technology
	slice   layer = "slice"   // one area each: types, rules, operations
	engine  layer = "engine"  // durable execution
	adapter layer = "adapter" // ports on a technology
	edge    layer = "edge"    // wire formats towards callers
	command layer = "command" // the command line and its client
	app     layer = "app"     // the composition root
	cmd     layer = "cmd"     // main functions
	support layer = "support" // test suites and fakes; never in a binary
	bench   layer = "bench"   // the benchmark harness
	example layer = "example" // programs that the documentation shows
)

// below says which layers a layer may import.
var below = map[layer][]layer{
	leaf:    {leaf},
	port:    {leaf, port},
	slice:   {leaf, port},
	engine:  {leaf, port, slice},
	adapter: {leaf, port, slice},
	edge:    {leaf, port, slice},
	command: {leaf, command},
	app:     {leaf, port, slice, engine, adapter, edge, command},
	cmd:     {leaf, command, app},
	support: {leaf, port, slice, adapter, edge, support},
	bench:   {leaf, bench, support},
}

// banned are packages of the standard library that a layer has no business
// with. The database and the network are behind ports.
var banned = map[layer][]string{
	leaf:    {"net/http", "database/sql", "os/exec"},
	port:    {"net/http", "database/sql", "os/exec"},
	slice:   {"net/http", "database/sql", "os/exec"},
	engine:  {"net/http", "database/sql", "os/exec"},
	edge:    {"database/sql", "os/exec"},
	command: {"database/sql"},
	cmd:     {"database/sql", "net/http"},
}

// row is a package and what it may import beyond its layer's rule.
type row struct {
	pattern string // as of path.Match
	layer   layer
	also    []string // our packages that the layer alone would not allow
	uses    []string // third-party modules, or packages of one
}

const (
	jsonModule = "github.com/go-json-experiment/json"
	otelModule = "go.opentelemetry.io/otel"
)

// rows lists every package of the house, those first whose names come first.
// A package without a row fails the test, so that a new one is a decision.
var rows = []row{
	{pattern: "bench/*", layer: bench, uses: []string{"modernc.org/sqlite", jsonModule}},
	{pattern: "cmd/agentd", layer: cmd},
	{pattern: "docs/examples/goclient", layer: example, uses: []string{"github.com/openai/openai-go/v3", "github.com/anthropics/anthropic-sdk-go"}},
	{pattern: "docs/examples/*", layer: example},

	{pattern: "internal/authz", layer: leaf},
	{pattern: "internal/banner", layer: leaf},
	{pattern: "internal/cache", layer: leaf, uses: []string{"github.com/maypok86/otter/v2"}},
	{pattern: "internal/clock", layer: leaf},
	{pattern: "internal/fault", layer: leaf},
	{pattern: "internal/guardrail/pii", layer: leaf},
	{pattern: "internal/ident", layer: leaf, uses: []string{"github.com/google/uuid"}},
	{pattern: "internal/media", layer: leaf},
	{pattern: "internal/page", layer: leaf},
	{pattern: "internal/route", layer: leaf},
	{pattern: "internal/schema", layer: leaf, uses: []string{jsonModule, "github.com/danielgtaylor/huma/v2"}},
	{pattern: "internal/secret", layer: leaf},
	{pattern: "internal/textindex", layer: leaf, uses: []string{"golang.org/x/text"}},
	{pattern: "internal/textract", layer: leaf, uses: []string{"github.com/JohannesKaufmann/html-to-markdown/v2"}},
	{pattern: "internal/tool/calc", layer: leaf},
	{pattern: "internal/txn", layer: leaf},

	{pattern: "internal/audit", layer: port, uses: []string{jsonModule}},
	{pattern: "internal/blob", layer: port},
	{pattern: "internal/event", layer: port, uses: []string{jsonModule}},
	{pattern: "internal/idempotency", layer: port},
	{pattern: "internal/imaging", layer: port, uses: []string{jsonModule}},
	{pattern: "internal/mail", layer: port, uses: []string{jsonModule}},
	{pattern: "internal/model", layer: port, uses: []string{jsonModule}},
	{pattern: "internal/policy", layer: port, uses: []string{jsonModule}},
	{pattern: "internal/quota", layer: port, uses: []string{jsonModule}},
	{pattern: "internal/ratelimit", layer: port},
	{pattern: "internal/recall", layer: port, uses: []string{jsonModule}},
	{pattern: "internal/resource", layer: port, uses: []string{jsonModule}},
	{pattern: "internal/rule", layer: port, uses: []string{"cel.dev/cel-go"}},
	{pattern: "internal/retrieval", layer: port},
	{pattern: "internal/tool", layer: port, uses: []string{jsonModule, "github.com/santhosh-tekuri/jsonschema/v6"}},
	{pattern: "internal/window", layer: port, uses: []string{jsonModule}},
	{pattern: "internal/work", layer: port, uses: []string{jsonModule}},

	{pattern: "internal/agent", layer: slice, uses: []string{jsonModule}},
	{pattern: "internal/artifact", layer: slice, also: []string{"internal/run"}},
	{pattern: "internal/commerce", layer: slice, uses: []string{jsonModule}},
	{pattern: "internal/credential", layer: slice, uses: []string{jsonModule}},
	{pattern: "internal/file", layer: slice},
	{pattern: "internal/guardrail", layer: slice, uses: []string{jsonModule, "golang.org/x/text"}},
	{pattern: "internal/gateway", layer: slice, uses: []string{jsonModule}},
	{pattern: "internal/identity", layer: slice, uses: []string{jsonModule}},
	{pattern: "internal/notification", layer: slice, also: []string{"internal/run"}, uses: []string{jsonModule}},
	{pattern: "internal/mcp", layer: slice, uses: []string{jsonModule}},
	{pattern: "internal/knowledge", layer: slice, also: []string{"internal/agent"}, uses: []string{jsonModule}},
	{pattern: "internal/memory", layer: slice, also: []string{"internal/agent", "internal/run"}, uses: []string{jsonModule}},
	{pattern: "internal/provider", layer: slice},
	{pattern: "internal/response", layer: slice, also: []string{"internal/run"}, uses: []string{jsonModule}},
	{pattern: "internal/run", layer: slice, also: []string{"internal/agent"}, uses: []string{jsonModule}},
	{pattern: "internal/schedule", layer: slice, also: []string{"internal/agent", "internal/run"}, uses: []string{jsonModule, "github.com/netresearch/go-cron"}},
	{pattern: "internal/search", layer: slice, also: []string{"internal/agent", "internal/run", "internal/session"}, uses: []string{jsonModule}},
	{pattern: "internal/session", layer: slice, also: []string{"internal/agent", "internal/run"}, uses: []string{jsonModule}},
	{pattern: "internal/tenancy", layer: slice, also: []string{"internal/identity"}, uses: []string{jsonModule}},

	{pattern: "internal/usage", layer: slice, uses: []string{jsonModule}},
	{pattern: "internal/signin", layer: slice, also: []string{"internal/identity"}, uses: []string{jsonModule}},
	{pattern: "internal/sensor", layer: slice, also: []string{"internal/agent", "internal/run"}, uses: []string{jsonModule}},
	{pattern: "internal/webhook", layer: slice, also: []string{"internal/run"}, uses: []string{jsonModule}},
	{pattern: "internal/workspace", layer: slice, also: []string{"internal/agent"}, uses: []string{jsonModule, "golang.org/x/text"}},

	{pattern: "internal/delegation", layer: slice, also: []string{"internal/agent", "internal/run"}, uses: []string{jsonModule}},
	{pattern: "internal/web", layer: slice, uses: []string{jsonModule}},

	{pattern: "internal/engine", layer: engine, uses: []string{jsonModule, otelModule}},

	{pattern: "internal/mcpclient", layer: adapter, uses: []string{jsonModule, "github.com/modelcontextprotocol/go-sdk", "golang.org/x/oauth2"}},
	{pattern: "internal/hookwire", layer: adapter, also: []string{"internal/outbound"}},
	{pattern: "internal/mailwire", layer: adapter, uses: []string{"github.com/wneessen/go-mail"}},
	{pattern: "internal/oidcwire", layer: adapter, uses: []string{"github.com/coreos/go-oidc/v3", "golang.org/x/oauth2"}},
	{pattern: "internal/memstore", layer: adapter},
	{pattern: "internal/modelwire", layer: adapter, uses: []string{jsonModule, otelModule, "code.dny.dev/ssrf"}},
	{pattern: "internal/natsbus", layer: adapter, uses: []string{jsonModule, "github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go"}},
	{pattern: "internal/outbound", layer: adapter, uses: []string{"code.dny.dev/ssrf", "golang.org/x/net"}},
	{pattern: "internal/webwire", layer: adapter, also: []string{"internal/outbound"}, uses: []string{jsonModule, "github.com/JohannesKaufmann/html-to-markdown/v2", "golang.org/x/net"}},
	{pattern: "internal/sqldb", layer: adapter, uses: []string{"github.com/jackc/pgx/v5", "github.com/pressly/goose/v3", "modernc.org/sqlite"}},
	{pattern: "internal/sqlstore", layer: adapter, also: []string{"internal/sqldb"}, uses: []string{jsonModule}},

	{pattern: "internal/compat/*", layer: edge, also: []string{"internal/httpapi"}, uses: []string{jsonModule}},
	{pattern: "internal/mcpserver", layer: edge, also: []string{"internal/httpapi"}, uses: []string{jsonModule}},
	{pattern: "internal/httpapi", layer: edge, uses: []string{
		jsonModule, otelModule, "github.com/go-chi/chi/v5", "github.com/danielgtaylor/huma/v2",
		"github.com/prometheus/client_golang", "golang.org/x/sync",
	}},

	// The operator's commands work on the database, beside a server or without one.
	{pattern: "internal/cli", layer: command, also: []string{"internal/audit", "internal/identity", "internal/quota", "internal/sqldb", "internal/sqlstore", "internal/tenancy"}, uses: []string{jsonModule, "github.com/alecthomas/kong"}},
	{pattern: "internal/client", layer: command, uses: []string{jsonModule}},
	{pattern: "internal/config", layer: leaf, uses: []string{"github.com/alecthomas/kong"}},

	{pattern: "internal/app", layer: app, uses: []string{
		jsonModule, otelModule, "github.com/prometheus/client_golang",
	}},

	{pattern: "internal/archtest", layer: support},
	{pattern: "internal/event/eventtest", layer: support, uses: []string{jsonModule, "github.com/google/go-cmp"}},
	{pattern: "internal/goldentest", layer: support, uses: []string{"github.com/google/go-cmp"}},
	{pattern: "internal/httpapi/httpapitest", layer: support},
	{pattern: "internal/mailwire/smtptest", layer: support},
	{pattern: "internal/oidcwire/oidctest", layer: support, uses: []string{jsonModule}},
	{pattern: "internal/mcp/mcptest", layer: support, uses: []string{jsonModule, "github.com/modelcontextprotocol/go-sdk"}},
	{pattern: "internal/model/modeltest", layer: support, uses: []string{jsonModule}},
	{pattern: "internal/resource/resourcetest", layer: support, uses: []string{jsonModule, "github.com/google/go-cmp"}},
	{pattern: "internal/run/runtest", layer: support, uses: []string{jsonModule, "github.com/google/go-cmp"}},
	{pattern: "internal/sqldb/sqldbtest", layer: support, uses: []string{"github.com/jackc/pgx/v5"}},
	{pattern: "internal/work/worktest", layer: support, uses: []string{"github.com/google/go-cmp"}},
}

// rowOf finds the row of a package of ours.
func rowOf(p string) (row, bool) {
	i := slices.IndexFunc(rows, func(r row) bool {
		ok, err := path.Match(r.pattern, p)
		return ok && err == nil
	})
	if i < 0 {
		return row{}, false
	}
	return rows[i], true
}

func TestEveryPackageHasALayer(t *testing.T) {
	t.Parallel()
	for p := range tree(t) {
		if _, ok := rowOf(p); !ok {
			t.Errorf("%s has no row in internal/archtest/layers_test.go; add {pattern: %q, layer: …} with the layer of docs/architecture.md that it belongs to, and the modules it uses", p, p)
		}
	}
}

func TestImportsPointDownwards(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		r, ok := rowOf(p.path)
		if !ok {
			continue // TestEveryPackageHasALayer says so
		}
		for _, f := range p.production() {
			for _, i := range f.imports {
				if why := refuse(r, i); why != "" {
					t.Errorf("%s imports %s: %s", f.name, i, why)
				}
			}
		}
	}
}

// refuse says why a package in row r must not import a path, or nothing.
func refuse(r row, imported string) string {
	if standard(imported) {
		if slices.Contains(banned[r.layer], imported) {
			return "packages of layer " + string(r.layer) + " reach it through a port, never directly"
		}
		return ""
	}
	rel, own := ours(imported)
	if !own {
		if slices.ContainsFunc(r.uses, func(m string) bool { return within(m, imported) }) {
			return ""
		}
		return "the module is not in the package's row of internal/archtest/layers_test.go; docs/architecture.md says who uses what"
	}
	target, ok := rowOf(rel)
	switch {
	case !ok, slices.Contains(below[r.layer], target.layer), slices.Contains(r.also, rel):
		return ""
	case target.layer == support:
		return "test support is never linked into a program"
	}
	return "layer " + string(r.layer) + " does not see layer " + string(target.layer)
}

// within says whether a package is the module or in it.
func within(module, imported string) bool {
	return imported == module || strings.HasPrefix(imported, module+"/")
}

// Tests may import across layers to run a thing for real, but the composition
// root stays above everything: only it, programs and whole-system tests see it.
func TestOnlyProgramsAndTheirTestsImportTheApp(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		r, _ := rowOf(p.path)
		if r.layer == cmd || r.layer == app {
			continue
		}
		for _, f := range p.files {
			if slices.Contains(f.imports, module+"/internal/app") && !f.test {
				t.Errorf("%s imports the composition root", f.name)
			}
		}
	}
}

// TestSupportStaysOutOfPrograms follows imports from each main package, so
// that a mistake in the table above cannot hide one.
func TestSupportStaysOutOfPrograms(t *testing.T) {
	t.Parallel()
	pkgs := tree(t)
	for _, p := range slices.SortedFunc(maps.Values(pkgs), byPath) {
		if !strings.HasPrefix(p.path, "cmd/") {
			continue
		}
		for dep, via := range reachable(pkgs, p.path) {
			if d := pkgs[dep]; d != nil && d.testSupport() {
				t.Errorf("%s links %s, imported by %s", p.path, dep, via)
			}
		}
	}
}

func byPath(a, b *pkg) int { return cmp.Compare(a.path, b.path) }

// reachable gives what is linked with a package, and through whom.
func reachable(pkgs map[string]*pkg, from string) map[string]string {
	via := map[string]string{}
	next := []string{from}
	for len(next) > 0 {
		p := pkgs[next[0]]
		next = next[1:]
		if p == nil {
			continue
		}
		for _, f := range p.production() {
			for _, i := range f.imports {
				rel, own := ours(i)
				if _, seen := via[rel]; own && !seen {
					via[rel] = p.path
					next = append(next, rel)
				}
			}
		}
	}
	return via
}
