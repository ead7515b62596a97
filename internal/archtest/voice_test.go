package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// phrases are ways of putting things that readers stumble over, with what to
// write in their place. They are looked for in the comments of all Go files;
// docs/glossary.md has the terms.
var phrases = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b(says|tells|said|say|tell) whether\b`), "reports whether"},
	{regexp.MustCompile(`^\w+ gives\b`), "returns, or what the function does"},
	{regexp.MustCompile(`\b(is|are|was|be|being) told\b`), "is notified, receives, is passed"},
	{regexp.MustCompile(`\bwhat is none\b`), "the thing itself"},
	{regexp.MustCompile(`\bnobody (is|was) told\b`), "who is notified"},
	{regexp.MustCompile(`\b(hears?|heard) of\b`), "is notified of, receives"},
	{regexp.MustCompile(`\bheed(s|ed)?\b`), "respects, obeys"},
	{regexp.MustCompile(`\bmend(s|ed|ing)?\b`), "fix, repair"},
	{regexp.MustCompile(`\b(anew)\b`), "again"},
	{regexp.MustCompile(`\b(interface|decisions|behaviours)\.md\b`), "the rule itself, or its row in docs/conformance.md as rule <id>"},
}

// names are identifiers that once stood for what the field has a word for.
var names = map[string]string{
	"whom": "resolveModels", "heard": "the value", "heeded": "the value", "letOut": "checkOutput", "goOn": "continue…", "mayAsk": "checkQuota",
	"afford": "reserve…", "judged": "recordVerdict", "tooLong": "handleOverflow", "lane": "dispatcher", "story": "history", "teller": "builder",
	"mender": "repairer", "complaints": "fieldErrors", "wishes": "requests, settings", "wish": "request, pending", "odd": "invalid",
	"seldom": "a duration's name", "noSuch": "missing", "shelf": "cache", "plot": "graph", "leg": "segment",
}

func TestCommentsSpeakPlainly(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		if p.path == "internal/archtest" {
			continue // which quotes what it looks for
		}
		for _, f := range p.files {
			for _, group := range f.Comments {
				for _, c := range group.List {
					text := strings.TrimSpace(strings.TrimLeft(c.Text, "/*"))
					for _, ph := range phrases {
						if found := ph.pattern.FindString(text); found != "" {
							t.Errorf("%s: %q: write %s", f.line(c.Pos()), found, ph.instead)
						}
					}
				}
			}
		}
	}
}

func TestNamesAreTheFieldsOwn(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		for _, f := range p.files {
			ast.Inspect(f.File, func(n ast.Node) bool {
				for _, id := range declared(n) {
					if instead := names[id.Name]; instead != "" {
						t.Errorf("%s: %s: write %s", f.line(id.Pos()), id.Name, instead)
					}
				}
				return true
			})
		}
	}
}

// declared returns the names that a node declares.
func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		var ids []*ast.Ident
		for _, e := range n.Lhs {
			if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
				ids = append(ids, id)
			}
		}
		return ids
	}
	return nil
}

var citedRule = regexp.MustCompile(`\brules? ((?:IF|D\d+|X)-[A-Za-z0-9.-]*[A-Za-z0-9])`)

// A comment may cite a rule by its id; the id is a row of docs/conformance.md.
func TestCitedRulesExist(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, r := range conformance(t) {
		ids = append(ids, r.id)
	}
	for _, p := range tree(t) {
		for _, f := range p.files {
			for _, group := range f.Comments {
				for _, m := range citedRule.FindAllStringSubmatch(group.Text(), -1) {
					if !slices.Contains(ids, m[1]) {
						t.Errorf("%s: docs/conformance.md has no rule %s", f.line(group.Pos()), m[1])
					}
				}
			}
		}
	}
}

// Documents speak as plainly as comments, and refer to nothing that a reader
// does not have.
func TestDocumentsReferToWhatIsThere(t *testing.T) {
	t.Parallel()
	missing := regexp.MustCompile(`\b(interface|decisions|behaviours)\.md\b`)
	for name := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if found := missing.FindString(string(text)); found != "" {
			t.Errorf("%s refers to %s, which is not in the repository", name, found)
		}
	}
}
