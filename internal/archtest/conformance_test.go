package archtest

import (
	"bufio"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const conformanceDoc = "docs/conformance.md"

// rule is one row of docs/conformance.md.
type rule struct {
	id    string
	text  string
	tests []string // of a rule that is built
	issue bool     // it is not built, and the issue that will build it is named
	line  int
}

var (
	ruleID   = regexp.MustCompile(`^(IF|D\d+|X)-[A-Za-z0-9.-]+$`)
	issueRef = regexp.MustCompile(`^issue [1-9]\d*$`)
	testName = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz|Example)[A-Za-z0-9_]*)((?:/[^`]+)?)`")
)

// conformance reads the tables of docs/conformance.md.
func conformance(t *testing.T) []rule {
	t.Helper()
	f, err := os.Open(filepath.Join(root, conformanceDoc))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rules []rule
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		cells := strings.Split(strings.Trim(lines.Text(), "| "), " | ")
		if !strings.HasPrefix(lines.Text(), "| ") || !ruleID.MatchString(cells[0]) {
			continue
		}
		if len(cells) != 3 {
			t.Fatalf("%s:%d: %d cells, not the three of rule, text and test or issue", conformanceDoc, n, len(cells))
		}
		r := rule{id: cells[0], text: cells[1], line: n, issue: issueRef.MatchString(cells[2]), tests: namedTests(cells[2])}
		rules = append(rules, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return rules
}

// namedTests gives the names in a cell: `run.TestMoves`, `httpapi.TestBody/bom`.
func namedTests(cell string) []string {
	var names []string
	for _, m := range testName.FindAllString(cell, -1) {
		names = append(names, strings.Trim(m, "`"))
	}
	return names
}

var ruleCount = regexp.MustCompile(`This page has (\d+) rules`)

// The page says how many rules it has, so that none is lost unnoticed: whoever
// adds or removes one changes the number, too.
func TestConformanceListsEveryRuleOnce(t *testing.T) {
	t.Parallel()
	rules := conformance(t)
	seen := map[string]int{}
	for _, r := range rules {
		if first, twice := seen[r.id]; twice {
			t.Errorf("%s:%d: %s stands in line %d already", conformanceDoc, r.line, r.id, first)
		}
		seen[r.id] = r.line
	}
	text, err := os.ReadFile(filepath.Join(root, conformanceDoc))
	if err != nil {
		t.Fatal(err)
	}
	m := ruleCount.FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s does not match %s", conformanceDoc, ruleCount)
	}
	if got := strconv.Itoa(len(rules)); got != string(m[1]) {
		t.Errorf("%s has %s rules and says %s; correct the sentence if that is intended", conformanceDoc, got, m[1])
	}
}

func TestEveryRuleHasATestThatExists(t *testing.T) {
	t.Parallel()
	pkgs := tree(t)
	for _, r := range conformance(t) {
		at := conformanceDoc + ":" + strconv.Itoa(r.line) + ": " + r.id
		if r.text == "" {
			t.Errorf("%s has no text", at)
		}
		if len(r.tests) == 0 && !r.issue {
			t.Errorf("%s names no test; write `package.TestName`, or the issue that will build it", at)
		}
		for _, name := range r.tests {
			if why := missing(pkgs, name); why != "" {
				t.Errorf("%s: %s: %s", at, name, why)
			}
		}
	}
}

// missing returns why a test does not exist, or "". Packages are named by
// their last element, which is unique, or from the module's root.
func missing(pkgs map[string]*pkg, name string) string {
	where, fn, _ := strings.Cut(name, ".")
	fn, sub, _ := strings.Cut(fn, "/")
	p := pkgs[where]
	for name, candidate := range pkgs {
		if p == nil && strings.HasSuffix(name, "/"+where) {
			p = candidate
		}
	}
	if p == nil {
		return "there is no such package"
	}
	if !slices.ContainsFunc(p.files, func(f *file) bool { return f.test && declares(f, fn) }) {
		return "the package has no such test"
	}
	if sub == "" {
		return ""
	}
	names := subtestNames(pkgs, p)
	for part := range strings.SplitSeq(sub, "/") {
		if part != "*" && !names[part] {
			return "no subtest is called " + part
		}
	}
	return ""
}

func declares(f *file, fn string) bool {
	return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
		decl, ok := d.(*ast.FuncDecl)
		return ok && decl.Recv == nil && decl.Name.Name == fn
	})
}

// subtestNames collects what a package's subtests can be called: every string
// in its tests, and in the suites that they run, as go test would write it.
func subtestNames(pkgs map[string]*pkg, p *pkg) map[string]bool {
	names := map[string]bool{}
	add := func(f *file) {
		ast.Inspect(f.File, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && s != "" {
					names[strings.ReplaceAll(s, " ", "_")] = true
				}
			}
			return true
		})
	}
	for _, f := range p.files {
		if !f.test {
			continue
		}
		add(f)
		for _, i := range f.imports {
			if rel, own := ours(i); own && pkgs[rel] != nil && pkgs[rel].testSupport() {
				for _, suite := range pkgs[rel].production() {
					add(suite)
				}
			}
		}
	}
	return names
}

// The check itself must be able to fail.
func TestMissingTestsAreNoticed(t *testing.T) {
	t.Parallel()
	pkgs := tree(t)
	tests := []struct {
		name    string
		missing bool
	}{
		{"archtest.TestRulesRefuse", false},
		{"internal/archtest.TestRulesRefuse", false},
		{"archtest.TestRulesRefuse/slice_never_http", false},
		{"archtest.TestRulesRefuse/no_such_case_" + "at_all", true},
		{"archtest.TestNothingOfThatName", true},
		{"nowhere.TestRulesRefuse", true},
	}
	for _, tt := range tests {
		if why := missing(pkgs, tt.name); (why != "") != tt.missing {
			t.Errorf("%s: missing says %q, want missing %t", tt.name, why, tt.missing)
		}
	}
	if got := namedTests("`run.TestMoves`, `compat/openai.TestChat/plain_text` and prose"); len(got) != 2 {
		t.Errorf("namedTests found %q", got)
	}
}
