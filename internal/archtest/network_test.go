package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// dialers are the packages that may make connections of their own, and whom
// they call. Whatever a tenant names is called through internal/wire/outbound.
var dialers = map[string]string{
	"internal/wire/outbound":     "addresses that tenants name, each checked when it is dialled",
	"internal/wire/azureclient":  "tokens for Azure OpenAI, through the transport of its endpoint",
	"internal/wire/modelcall":    "the operator's model endpoints",
	"internal/wire/webhttp":      "the operator's search provider",
	"internal/wire/oidcclient":   "the operator's sign-in services",
	"internal/wire/smtpmail":     "the operator's mail server",
	"internal/wire/syslog":       "the operator's SIEM",
	"internal/wire/stripeclient": "Stripe, or what the operator names in its place",
	"internal/wire/mcpclient":    "makes clients on the guarded transport",
	"internal/client":            "the server that the command line talks to",
}

// calling are the names by which a program of net, net/http or crypto/tls calls
// others; true: nobody may, because the process-wide client follows redirects,
// uses proxies and bounds nothing.
var calling = map[string]map[string]bool{
	"net/http": {
		"DefaultClient": true, "Get": true, "Head": true, "Post": true, "PostForm": true,
		"DefaultTransport": false, "Transport": false, "Client": false,
	},
	"net":        {"Dial": true, "DialTimeout": true, "DialTCP": true, "DialUDP": true, "DialIP": true, "DialUnix": true, "Dialer": false},
	"crypto/tls": {"Dial": true, "DialWithDialer": true, "Dialer": false, "Client": false},
}

func TestOnlyAdaptersDial(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range tree(t) {
		if p.testSupport() || !strings.HasPrefix(p.path, "internal/") && !strings.HasPrefix(p.path, "cmd/") {
			continue
		}
		for _, f := range p.production() {
			for _, use := range callsOut(f) {
				seen[p.path] = true
				if use.never || dialers[p.path] == "" {
					t.Errorf("%s: %s is used; what a tenant names is called through internal/wire/outbound, and who else calls out is listed in internal/archtest/network_test.go", f.line(use.at.Pos()), use.name)
				}
			}
		}
	}
	for path := range dialers {
		if !seen[path] {
			t.Errorf("%s calls nobody; take it out of the list", path)
		}
	}
}

type outwards struct {
	at    ast.Node
	name  string
	never bool
}

// callsOut finds where a file names what calls others.
func callsOut(f *file) (found []outwards) {
	packages := map[string]map[string]bool{}
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil || calling[path] == nil {
			continue
		}
		name := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		packages[name] = calling[path]
	}
	ast.Inspect(f.File, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok {
				if never, named := packages[x.Name][sel.Sel.Name]; named {
					found = append(found, outwards{sel, x.Name + "." + sel.Sel.Name, never})
				}
			}
		}
		return true
	})
	return found
}

// The rule itself must be able to fail.
func TestCallsOutAreNoticed(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		`import "net/http"; var _ = http.DefaultClient`:            {"http.DefaultClient never"},
		`import web "net/http"; func f() { web.Get("x") }`:         {"web.Get never"},
		`import "net/http"; var _ = http.Client{}`:                 {"http.Client"},
		`import "net"; import "crypto/tls"; var _ = net.Dialer{}`:  {"net.Dialer"},
		`import "crypto/tls"; func f() { tls.Dial("a", "b", nil)}`: {"tls.Dial never"},
		`import "net/http"; var _ http.Handler`:                    nil,
		`import http "example.com/http"; var _ = http.Get`:         nil,
	} {
		f := &file{name: "x.go"}
		var err error
		if f.File, err = parserFile("package x; " + source); err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		var got []string
		for _, use := range callsOut(f) {
			if use.never {
				use.name += " never"
			}
			got = append(got, use.name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", source, got, want)
		}
	}
}

func parserFile(source string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), "x.go", source, parser.SkipObjectResolution)
}
