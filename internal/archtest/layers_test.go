package archtest

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// layer is a floor of the house (docs/architecture.md). It is read from the
// path of a package, so that the folder is the rule.
type layer string

// The floors, lowest first, then what stands beside the house.
const (
	base    layer = "base"    // words that everything speaks
	kernel  layer = "kernel"  // what every area stands on, and its ports
	store   layer = "store"   // the kernel's ports on databases and NATS
	family  layer = "family"  // areas: their types, rules and operations
	sql     layer = "sql"     // an area's tables, in <area>/<area>sql
	wire    layer = "wire"    // clients of other services
	edge    layer = "edge"    // wire formats towards callers
	command layer = "command" // the command line and its client
	app     layer = "app"     // the composition root
	cmd     layer = "cmd"     // main functions
	support layer = "support" // test suites and fakes; never in a binary
	e2e     layer = "e2e"     // tests of the whole program
	bench   layer = "bench"   // the benchmark harness
	tools   layer = "tools"   // programs for developers; not part of agentd
	example layer = "example" // programs that the documentation shows
)

// below lists the layers that a layer may import.
var below = map[layer][]layer{
	base:    {base},
	kernel:  {base, kernel},
	store:   {base, kernel},
	family:  {base, kernel},
	sql:     {base, kernel},
	wire:    {base, kernel, family, wire},
	edge:    {base, kernel, family, edge},
	command: {base, command},
	app:     {base, kernel, store, family, sql, wire, edge, command, app},
	cmd:     {base, command, app},
	support: {base, kernel, store, family, sql, wire, edge, support},
	e2e:     {},
	bench:   {base, bench, support},
	tools:   {},
}

// families lists the grouping folders of areas, and for each the families
// whose packages it may import beside its own.
var families = map[string][]string{
	"accounts":   {},
	"agents":     {},
	"execution":  {"agents"},
	"content":    {"agents", "execution"},
	"delivery":   {"agents", "execution"},
	"teams":      {"agents", "execution", "content"},
	"governance": {"agents", "execution"},
	"commerce":   {"agents", "execution"},
	"insight":    {"agents", "execution"},
	"operation":  {"agents", "execution"},
	"public":     {"agents", "execution", "operation"},
}

// groups are the grouping folders of internal: they hold packages, no Go files.
var groups = append([]string{"base", "kernel", "store", "wire", "edge"}, slices.Collect(maps.Keys(families))...)

// banned are packages of the standard library that a layer reaches through a
// port only.
var banned = map[layer][]string{
	base:    {"net/http", "database/sql", "os/exec"},
	kernel:  {"net/http", "database/sql", "os/exec"},
	family:  {"net/http", "database/sql", "os/exec"},
	sql:     {"net/http", "os/exec"},
	edge:    {"database/sql", "os/exec"},
	command: {"database/sql"},
	cmd:     {"database/sql", "net/http"},
}

const (
	jsonModule = "github.com/go-json-experiment/json"
	otelModule = "go.opentelemetry.io/otel"
	cmpModule  = "github.com/google/go-cmp"
)

// modules lists the third-party modules that a package may import, beside
// those that its whole layer may. A new dependency is a decision: a row here.
var modules = map[string][]string{
	"bench/*":                {"modernc.org/sqlite", "github.com/jackc/pgx/v5", jsonModule, "github.com/coder/websocket"},
	"docs/examples/goclient": {"github.com/openai/openai-go/v3", "github.com/anthropics/anthropic-sdk-go"},

	"internal/base/cache":    {"github.com/maypok86/otter/v2"},
	"internal/base/config":   {"github.com/alecthomas/kong"},
	"internal/base/ident":    {"github.com/google/uuid"},
	"internal/base/secret":   {"golang.org/x/crypto"},
	"internal/base/schema":   {"github.com/danielgtaylor/huma/v2"},
	"internal/base/text":     {"github.com/agnivade/levenshtein"},
	"internal/base/tokenize": {"golang.org/x/text"},

	"internal/kernel/rule":     {"cel.dev/cel-go"},
	"internal/kernel/jsonform": {"github.com/santhosh-tekuri/jsonschema/v6"},

	"internal/store/backupsql":       {"filippo.io/age", "github.com/klauspost/compress"},
	"internal/store/natsbus":         {"github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go"},
	"internal/store/sqldb":           {"github.com/gofrs/flock", "github.com/jackc/pgx/v5", "github.com/pressly/goose/v3", "modernc.org/sqlite", "modernc.org/libc"},
	"internal/store/sqldb/sqldbtest": {"github.com/jackc/pgx/v5"},

	"internal/agents/guardrail":        {"golang.org/x/text"},
	"internal/agents/mcp/mcptest":      {"github.com/modelcontextprotocol/go-sdk"},
	"internal/content/htmltext":        {"golang.org/x/net"},
	"internal/content/doctext/pdftext": {"github.com/ledongthuc/pdf"},
	"internal/content/textindex":       {"github.com/blevesearch/snowballstem"},
	"internal/content/workspace":       {"golang.org/x/text"},
	"internal/content/skill":           {"go.yaml.in/yaml/v3"},
	"internal/delivery/integration":    {"go.yaml.in/yaml/v3"},
	"internal/execution/engine":        {otelModule},
	"internal/execution/session":       {"github.com/evanphx/json-patch/v5"},
	"internal/execution/schedule":      {"github.com/netresearch/go-cron"},

	"internal/wire/a2aclient":            {"github.com/a2aproject/a2a-go/v2"},
	"internal/wire/azureclient":          {"golang.org/x/oauth2"},
	"internal/wire/bedrockclient":        {"github.com/aws/aws-sdk-go-v2"},
	"internal/wire/wiretest/bedrocktest": {"github.com/aws/aws-sdk-go-v2"},
	"internal/wire/connectorclient":      {"github.com/jackc/pgx/v5"},
	"internal/wire/jsengine":             {"github.com/tetratelabs/wazero"},
	"internal/wire/mcpclient":            {"github.com/modelcontextprotocol/go-sdk", "golang.org/x/oauth2"},
	"internal/wire/oidcclient":           {"github.com/coreos/go-oidc/v3", "golang.org/x/oauth2"},
	"internal/wire/modelcall":            {otelModule},
	"internal/wire/openaiclient":         {otelModule, "code.dny.dev/ssrf"},
	"internal/wire/outbound":             {"code.dny.dev/ssrf", "golang.org/x/net"},
	"internal/wire/sandbox":              {"golang.org/x/sys"},
	"internal/wire/smtpmail":             {"github.com/wneessen/go-mail"},
	"internal/wire/smtpmail/smtptest":    {"github.com/emersion/go-smtp", "github.com/emersion/go-sasl"},
	"internal/wire/webhttp":              {"golang.org/x/net"},
	"internal/wire/workcommand":          {"github.com/creack/pty"},
	"internal/wire/workhelper":           {"golang.org/x/sys"},

	"internal/edge/bridgeserver":   {"github.com/coder/websocket"},
	"internal/edge/terminalserver": {"github.com/coder/websocket"},
	"internal/cli/terminalclient":  {"github.com/coder/websocket", "golang.org/x/term"},
	"internal/cli/bridgeclient":    {"github.com/coder/websocket", "github.com/modelcontextprotocol/go-sdk"},
	"internal/edge/a2aserver":      {"github.com/a2aproject/a2a-go/v2"},
	"internal/edge/httpapi": {
		otelModule, "github.com/go-chi/chi/v5", "github.com/danielgtaylor/huma/v2", "github.com/prometheus/client_golang", "golang.org/x/sync",
	},

	"cmd/agentd":             {"github.com/mattn/go-isatty"},
	"internal/cli":           {"github.com/alecthomas/kong", "github.com/alecthomas/mango-kong", "github.com/muesli/roff", "golang.org/x/sys", "golang.org/x/term", "golang.org/x/text"},
	"internal/cli/scrape":    {"github.com/prometheus/client_model", "github.com/prometheus/common"},
	"internal/tools/sbom":    {"github.com/CycloneDX/cyclonedx-go"},
	"internal/cli/agentfile": {"github.com/aymanbagabas/go-udiff", "go.yaml.in/yaml/v3"},

	"internal/app": {otelModule, "github.com/prometheus/client_golang"},
	"internal/app/apptest": {
		"github.com/modelcontextprotocol/go-sdk", "github.com/nats-io/nats-server/v2", "go.uber.org/goleak",
	},
}

// layerModules lists the third-party modules that every package of a layer may
// import.
var layerModules = map[layer][]string{
	kernel: {jsonModule}, store: {jsonModule}, family: {jsonModule}, sql: {jsonModule}, wire: {jsonModule}, edge: {jsonModule},
	command: {jsonModule}, app: {jsonModule}, tools: {jsonModule}, support: {jsonModule, cmpModule}, base: {jsonModule},
}

// exceptions lists imports that the layers alone would refuse, and why.
var exceptions = map[string]map[string]string{
	"internal/app/apptest":   {"internal/app": "it starts whole servers"},
	"internal/cli/agentfile": {"internal/agents/agent": "which fields an agent has"},
	"internal/cli": {
		// The operator's commands work on the database, beside a server or without one.
		"internal/accounts/identity": "", "internal/accounts/tenantadmin": "", "internal/kernel/audit": "", "internal/kernel/quota": "",
		"internal/store/sqldb":                         "they open it, and migrate it",
		"internal/accounts/identity/identitysql":       "who makes tenants, members and keys",
		"internal/accounts/signin":                     "what a one-time link for signing in is",
		"internal/accounts/signin/signinsql":           "who makes such links",
		"internal/accounts/tenantadmin/tenantadminsql": "who suspends and purges tenants",
		"internal/store/auditsql":                      "every command is in the audit log",
		"internal/store/backupsql":                     "they make backups and restore them",
		"internal/store/secretsql":                     "they replace the secret keys",
		"internal/store/worksql":                       "a purge is work, also without a server",
	},
}

// layerOf returns the layer of a package of ours, and reports whether its path
// is one that the house has.
func layerOf(p string) (layer, bool) {
	parts := strings.Split(p, "/")
	switch {
	case strings.HasSuffix(p, "test") && parts[0] == "internal":
		return support, true
	case parts[0] == "cmd":
		return cmd, true
	case parts[0] == "bench":
		return bench, true
	case p == "test" || strings.HasPrefix(p, "test/"):
		return e2e, true
	case strings.HasPrefix(p, "docs/examples/"):
		return example, true
	case parts[0] != "internal" || len(parts) < 2:
		return "", false
	}
	switch parts[1] {
	case "app":
		return app, true
	case "cli", "client":
		return command, true
	case "tools":
		return tools, true
	}
	if len(parts) < 3 {
		return "", false
	}
	switch parts[1] {
	case "base", "kernel", "store", "wire", "edge":
		return layer(parts[1]), true
	}
	if _, ok := families[parts[1]]; !ok {
		return "", false
	}
	if len(parts) == 4 && parts[3] == parts[2]+"sql" {
		return sql, true
	}
	return family, true
}

func TestEveryPackageHasALayer(t *testing.T) {
	t.Parallel()
	for p := range tree(t) {
		if _, ok := layerOf(p); !ok {
			t.Errorf("%s is in no floor or family; move it to internal/<floor or family>/<package> (docs/architecture.md)", p)
		}
	}
}

func TestGroupingFoldersHoldNoGoFiles(t *testing.T) {
	t.Parallel()
	pkgs := tree(t)
	for _, g := range groups {
		if p := pkgs["internal/"+g]; p != nil {
			t.Errorf("internal/%s groups packages and holds Go files itself: %s", g, p.files[0].name)
		}
	}
}

// A package's name alone tells which package it is, in the code and in
// docs/conformance.md.
func TestPackageNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for p := range tree(t) {
		l, _ := layerOf(p)
		if l == bench || l == example || l == e2e {
			continue
		}
		name := path.Base(p)
		if first, twice := seen[name]; twice {
			t.Errorf("%s and %s have the same name", first, p)
		}
		seen[name] = p
	}
}

func TestImportsPointDownwards(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		if _, ok := layerOf(p.path); !ok {
			continue // TestEveryPackageHasALayer reports it
		}
		for _, f := range p.production() {
			for _, i := range f.imports {
				if why := refuse(p.path, i); why != "" {
					t.Errorf("%s imports %s: %s", f.name, i, why)
				}
			}
		}
	}
}

// refuse returns why a package must not import a path, or "".
func refuse(from, imported string) string {
	l, _ := layerOf(from)
	if standard(imported) {
		if slices.Contains(banned[l], imported) {
			return "packages of layer " + string(l) + " reach it through a port, never directly"
		}
		return ""
	}
	rel, own := ours(imported)
	if !own {
		if allows(from, l, imported) {
			return ""
		}
		return "the module is not in the package's row of internal/archtest/layers_test.go"
	}
	if _, ok := exceptions[from][rel]; ok {
		return ""
	}
	target, ok := layerOf(rel)
	switch {
	case !ok:
		return ""
	case rel == "internal/execution/engine" && l != app:
		return "only the composition root sees the engine"
	case target == support && l != support && l != bench && l != e2e:
		return "test support is never linked into a program"
	case l == e2e && (target == app || target == support || target == base):
		return ""
	case slices.Contains(below[l], target):
		return ""
	case l == family || l == sql:
		return refuseFamily(from, rel, l, target)
	case l == store && strings.HasSuffix(from, "sql") && rel == "internal/store/sqldb":
		return ""
	}
	return "layer " + string(l) + " does not see layer " + string(target)
}

// refuseFamily is refuse for an area and its SQL: of the other families they
// see those below, and only the SQL sees the database and other SQL.
func refuseFamily(from, rel string, l, target layer) string {
	if l == sql && target == store && (rel == "internal/store/sqldb" || strings.HasSuffix(rel, "sql")) {
		return ""
	}
	if target != family && (l != sql || target != sql) {
		return "layer " + string(l) + " does not see layer " + string(target)
	}
	own, theirs := strings.Split(from, "/")[1], strings.Split(rel, "/")[1]
	if own == theirs || slices.Contains(families[own], theirs) {
		return ""
	}
	return "family " + own + " does not see family " + theirs
}

// allows reports whether a package may import a third-party package.
func allows(from string, l layer, imported string) bool {
	in := func(list []string) bool {
		return slices.ContainsFunc(list, func(m string) bool { return within(m, imported) })
	}
	if in(layerModules[l]) {
		return true
	}
	for pattern, list := range modules {
		if ok, err := path.Match(pattern, from); ok && err == nil && in(list) {
			return true
		}
	}
	return false
}

// within reports whether a package is the module or in it.
func within(module, imported string) bool {
	return imported == module || strings.HasPrefix(imported, module+"/")
}

// Tests may import across layers to run a thing for real, but the composition
// root stays above everything: only it, programs and whole-system tests see it.
func TestOnlyProgramsAndTheirTestsImportTheApp(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		l, _ := layerOf(p.path)
		if l == cmd || l == app || p.path == "internal/app/apptest" {
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
