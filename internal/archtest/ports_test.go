package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// portVerbs are the words that a method of a storage port begins with: one
// verb for each act, so that a reader who knows one port knows them all.
var portVerbs = []string{
	"Create", // a row that does not exist yet
	"Get",    // one row
	"List",   // rows, in order
	"Update", // a row that exists
	"Put",    // a row, whether it exists or not
	"Delete",
	"Count", "Has",
	"Lock", // get a row and lock it until commit

	// Acts that are more than one of those.
	"Append", "Read", "Visit", "Search", // logs and large contents
	"Increment", "Record", // counters and times
	"Reserve", "Settle", "Claim", "Release", "Renew", "Complete", "Finish", "End", // leases and reservations
	"Enqueue", "Hold", "Reschedule", "Reclaim", "Suspend", "Resume", // work
	"Mark", "Enable", "Revoke", "Request", "Reset", "Clear", "Consume", // states
	"Reference", "Unreference", "Dereference", // blobs
}

// refusedVerbs are other words for the acts, and the one that we use.
var refusedVerbs = map[string]string{
	"Insert": "Create", "Add": "Create", "New": "Create",
	"Find": "Get or List", "Fetch": "Get or List", "Load": "Get or List", "Query": "List", "Select": "List",
	"Set": "Update, or Put for a row that may not exist", "Save": "Put", "Upsert": "Put", "Replace": "Put", "Change": "Update",
	"Remove": "Delete", "Drop": "Delete", "Forget": "Delete", "Purge": "Delete", "Sweep": "Delete",
	"Exists": "Has", "Is": "Has", "Total": "Count", "Take": "Consume",
}

// withoutTx are methods that may get a transaction and are not named so.
var withoutTx = map[string]string{
	"usage.Store.GetTerms":         "reads outside of a transaction where tx is nil",
	"usage.Store.GetSpent":         "reads outside of a transaction where tx is nil",
	"usage.Store.CountHeld":        "reads outside of a transaction where tx is nil",
	"run.Store.ListApprovalsByRun": "reads outside of a transaction where tx is nil",
}

// A storage port is an interface that a package of SQL asserts to implement.
func TestPortsUseOneVerbPerAct(t *testing.T) {
	t.Parallel()
	pkgs := tree(t)
	ports := storagePorts(pkgs)
	if len(ports) < 25 {
		t.Fatalf("found only the ports %v", ports)
	}
	used := map[string]bool{}
	for _, port := range ports {
		for _, m := range portMethods(pkgs, port) {
			verb := firstWord(m.name)
			switch better, refused := refusedVerbs[verb]; {
			case refused:
				t.Errorf("%s.%s: say %s", port, m.name, better)
			case !slices.Contains(portVerbs, verb):
				t.Errorf("%s.%s: %q is not in the list of verbs of internal/archtest/ports_test.go", port, m.name, verb)
			}
			name := port + "." + m.name
			if _, ok := withoutTx[name]; ok {
				used[name] = true
			} else if m.tx != strings.HasSuffix(m.name, "Tx") {
				t.Errorf("%s: a method ends in Tx if it takes a transaction, and only then", name)
			}
		}
	}
	for name := range withoutTx {
		if !used[name] {
			t.Errorf("withoutTx names %s, which does not exist", name)
		}
	}
}

// storagePorts returns the interfaces of the assertions
// "var _ pkg.Name = (*T)(nil)" in the packages of SQL.
func storagePorts(pkgs map[string]*pkg) (ports []string) {
	for _, p := range pkgs {
		if l, _ := layerOf(p.path); l != sql && (l != store || !strings.HasSuffix(p.path, "sql")) {
			continue
		}
		for _, f := range p.production() {
			ast.Inspect(f.File, func(n ast.Node) bool {
				v, ok := n.(*ast.ValueSpec)
				if !ok || len(v.Names) != 1 || v.Names[0].Name != "_" {
					return true
				}
				if s, ok := v.Type.(*ast.SelectorExpr); ok {
					ports = append(ports, s.X.(*ast.Ident).Name+"."+s.Sel.Name)
				}
				return true
			})
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

type portMethod struct {
	name string
	tx   bool // it takes a txn.Tx
}

// portMethods returns the methods that an interface declares itself.
func portMethods(pkgs map[string]*pkg, port string) (methods []portMethod) {
	in, name, _ := strings.Cut(port, ".")
	for _, p := range pkgs {
		if path.Base(p.path) != in {
			continue
		}
		for _, f := range p.production() {
			ast.Inspect(f.File, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok || spec.Name.Name != name {
					return true
				}
				if i, ok := spec.Type.(*ast.InterfaceType); ok {
					for _, m := range i.Methods.List {
						if fn, ok := m.Type.(*ast.FuncType); ok {
							methods = append(methods, portMethod{m.Names[0].Name, takesTx(fn)})
						}
					}
				}
				return true
			})
		}
	}
	return methods
}

func takesTx(fn *ast.FuncType) bool {
	return slices.ContainsFunc(fn.Params.List, func(p *ast.Field) bool {
		s, ok := p.Type.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Tx"
	})
}

func firstWord(name string) string {
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			return name[:i]
		}
	}
	return name
}
