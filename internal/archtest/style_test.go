package archtest

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryPackageHasOnePackageComment(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		var found []string
		want := "Package "
		for _, f := range p.files {
			if f.Name.Name == "main" {
				want = "Command "
			}
			if f.Doc == nil || strings.HasSuffix(f.Name.Name, "_test") {
				continue
			}
			found = append(found, f.name)
			if !strings.HasPrefix(f.Doc.Text(), want) {
				t.Errorf("%s: the package comment starts with %q, not with %q", f.name, firstWords(f.Doc.Text()), want+"…")
			}
		}
		if len(found) != 1 {
			t.Errorf("%s has %d package comments, not one: %v", p.path, len(found), found)
		}
	}
}

func firstWords(s string) string {
	words := strings.Fields(s)
	return strings.Join(words[:min(3, len(words))], " ")
}

// encoding/json lets AGENT_ID stand for agent_id, keeps the last of two equal
// names and repairs bad UTF-8: none of it is allowed (decisions.md D2). Examples
// are for readers who have nothing else.
func TestProductionCodeDecodesJSONStrictly(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		for _, f := range p.production() {
			if slices.Contains(f.imports, "encoding/json") && !strings.HasPrefix(f.name, "docs/examples/") {
				t.Errorf("%s imports encoding/json; use github.com/go-json-experiment/json", f.name)
			}
		}
	}
}

// sleepers are the tests that must let real time pass, and why.
var sleepers = map[string]string{
	"TestCloseEndsWriting":             "writers write for a while; any length is right",
	"TestConnectionIsGoodAfterAStream": "a deadline in the kernel must pass; a bubble has no real connections",
}

// A test that sleeps is slow or flaky, mostly both. Two kinds of sleep are
// none: in a synctest bubble it costs nothing and is exact, and in a loop it
// polls a real server for what the test waits for.
func TestNoTestSleeps(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		bubbles := bubbles(p)
		for _, f := range p.files {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || !f.test || sleepers[fn.Name.Name] != "" || inBubble(fn, bubbles) {
					continue
				}
				polls := polled(fn)
				for _, c := range calls(fn, "time", "Sleep") {
					if !polls[c] {
						t.Errorf("%s: %s sleeps; use testing/synctest or a fake clock, or wait for what the test waits for", f.line(c.Pos()), fn.Name)
					}
				}
			}
		}
	}
}

// bubbles gives the package's functions that start a synctest bubble.
func bubbles(p *pkg) map[string]bool {
	found := map[string]bool{}
	for _, f := range p.files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && len(calls(fn, "synctest", "")) > 0 {
				found[fn.Name.Name] = true
			}
		}
	}
	return found
}

// inBubble reports whether a function starts a bubble, by itself or by a helper.
func inBubble(fn *ast.FuncDecl, bubbles map[string]bool) bool {
	inside := bubbles[fn.Name.Name]
	ast.Inspect(fn, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if name, ok := call.Fun.(*ast.Ident); ok && bubbles[name.Name] {
				inside = true
			}
		}
		return !inside
	})
	return inside
}

// polled gives the sleeps that stand in loops.
func polled(fn *ast.FuncDecl) map[*ast.CallExpr]bool {
	found := map[*ast.CallExpr]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			for _, c := range calls(n, "time", "Sleep") {
				found[c] = true
			}
		}
		return true
	})
	return found
}

// calls finds pkg.name(…) below a node; name "" finds any function of pkg.
func calls(n ast.Node, pkg, name string) []*ast.CallExpr {
	var found []*ast.CallExpr
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || (name != "" && sel.Sel.Name != name) {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg {
			found = append(found, call)
		}
		return true
	})
	return found
}

var postponed = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XXX)\b`)

func TestNothingIsPostponedInComments(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		for _, f := range p.files {
			for _, group := range f.Comments {
				for _, c := range group.List {
					if word := postponed.FindString(c.Text); word != "" {
						t.Errorf("%s: %s; do it now, or write it into docs/regrets.md", f.line(c.Pos()), word)
					}
				}
			}
		}
	}
}
