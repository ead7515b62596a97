package archtest

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// page is a document, without its fenced blocks.
type page struct {
	name   string // from the module's root
	prose  string
	fences []fence
}

type fence struct{ language, text string }

// pages reads every document of the repository.
func pages(t *testing.T) map[string]page {
	t.Helper()
	found := map[string]page{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(file) != ".md" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		name = filepath.ToSlash(name)
		found[name] = split(name, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func split(name, text string) page {
	p := page{name: name}
	var prose, block strings.Builder
	language, inside := "", false
	for line := range strings.Lines(text) {
		mark, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && !inside:
			language, inside = mark, true
			block.Reset()
		case isFence:
			p.fences = append(p.fences, fence{language, block.String()})
			inside = false
		case inside:
			block.WriteString(line)
		default:
			prose.WriteString(line)
		}
	}
	p.prose = prose.String()
	return p
}

var (
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	foreign = regexp.MustCompile(`^(https?|mailto):`)
)

func TestLinksInDocumentsResolve(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(p.prose, -1) {
			if foreign.MatchString(m[1]) {
				continue
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			file := p.name
			if target != "" {
				file = path.Join(path.Dir(p.name), target)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", p.name, m[1])
				continue
			}
			if anchor != "" && !anchors(all[file])[anchor] {
				t.Errorf("%s: %s has no heading #%s", p.name, file, anchor)
			}
		}
	}
}

// anchors are the names by which headings are linked, made as GitHub makes them.
func anchors(p page) map[string]bool {
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(p.prose, -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= 0x80 || '0' <= r && r <= '9' || 'a' <= r && r <= 'z':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		names[slug] = true
	}
	return names
}

func TestEveryDocumentIsInTheIndex(t *testing.T) {
	t.Parallel()
	all := pages(t)
	listed := map[string]bool{"docs/README.md": true}
	for _, index := range []string{"docs/README.md", "docs/adr/README.md"} {
		for _, m := range link.FindAllStringSubmatch(all[index].prose, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			listed[path.Join(path.Dir(index), target)] = true
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "docs/") && !listed[name] {
			t.Errorf("neither docs/README.md nor docs/adr/README.md lists %s", name)
		}
	}
}

func TestExamplesInDocumentsAreJSON(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for _, f := range p.fences {
			if f.language == "json" && !jsontext.Value(f.text).IsValid() {
				t.Errorf("%s: this block is marked json and is none:\n%s", p.name, f.text)
			}
		}
	}
}

// Codes that callers branch on stand in docs/errors.md: those of problem
// documents, and those that a run ends with.
func TestEveryErrorCodeIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range tree(t) {
		if p.testSupport() || !strings.HasPrefix(p.path, "internal/") {
			continue
		}
		for _, f := range p.production() {
			for code, where := range codes(f) {
				if !strings.Contains(string(text), "`"+code+"`") {
					t.Errorf("%s: docs/errors.md does not explain the code %s", where, code)
				}
			}
		}
	}
}

// codes finds the codes that a file gives to faults, and those that it names
// by constants.
func codes(f *file) map[string]string {
	found := map[string]string{}
	note := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if code, err := strconv.Unquote(lit.Value); err == nil && code != "" {
				found[code] = f.line(lit.Pos())
			}
		}
	}
	for _, c := range calls(f.File, "fault", "New") {
		if len(c.Args) > 1 {
			note(c.Args[1])
		}
	}
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr: // within the edge
			if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "wire" && len(n.Args) > 1 {
				note(n.Args[1])
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if (strings.HasPrefix(name.Name, "Code") || strings.HasPrefix(name.Name, "code")) && i < len(n.Values) {
					note(n.Values[i])
				}
			}
		}
		return true
	})
	return found
}
