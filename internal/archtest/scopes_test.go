package archtest

import (
	"go/ast"
	"testing"
)

// scopesByHand are the packages and files that may build a page.Scope by hand, and why.
var scopesByHand = map[string]string{
	"internal/kernel/resource":           "a list filters by the indexes of its kind, each in a slot of its own; versions have no filter but their resource",
	"internal/execution/run/continue.go": "the token that continues a run is bound to it; there is no list and no input",
}

// A scope that is built by hand forgets the filter that is added next, and its
// cursors then continue another list.
func TestScopesOfCursorsFollowFromInputs(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		if p.path == "internal/base/page" {
			continue
		}
		for _, f := range p.production() {
			for _, at := range scopesIn(f.File) {
				if scopesByHand[p.path] == "" && scopesByHand[f.name] == "" {
					t.Errorf("%s builds a page.Scope by hand; use page.ScopeOf with the input of the list", f.line(at.Pos()))
				}
			}
		}
	}
}

// scopesIn returns the literals page.Scope{…} of a declaration.
func scopesIn(d ast.Node) []ast.Node {
	var found []ast.Node
	ast.Inspect(d, func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok {
			if sel, ok := lit.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Scope" {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "page" {
					found = append(found, n)
				}
			}
		}
		return true
	})
	return found
}

func TestScopesByHandAreNoticed(t *testing.T) {
	t.Parallel()
	f, err := parserFile("package x\nvar a = page.Scope{List: \"a\"}\nfunc f() { g(&page.Scope{}); h(authz.Scope{}, page.ScopeOf(1)) }\n")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(scopesIn(f)); n != 2 {
		t.Errorf("%d are found, want 2", n)
	}
}
