package archtest

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentd/internal/goldentest"
)

// A code block after this comment is the body of an example test:
//
//	<!-- example: page.ExampleCursors -->
var shownExample = regexp.MustCompile("(?s)<!-- example: ([a-z]+)\\.(Example[A-Za-z_]+) -->\n\n```go\n(.*?)```")

// Documents show code that compiles and prints what it says, because go test
// runs it. With -update the blocks are written again.
func TestDocumentsShowTheExamples(t *testing.T) {
	t.Parallel()
	pkgs := tree(t)
	for name := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !shownExample.Match(text) {
			continue
		}
		shown := shownExample.ReplaceAllFunc(text, func(block []byte) []byte {
			m := shownExample.FindSubmatch(block)
			code := exampleCode(t, pkgs, string(m[1]), string(m[2]))
			if code == "" {
				t.Errorf("%s shows %s.%s, which does not exist", name, m[1], m[2])
				return block
			}
			return bytes.Replace(block, append([]byte("```go\n"), m[3]...), []byte("```go\n"+code), 1)
		})
		goldentest.Check(t, filepath.Join(root, name), shown)
	}
}

// exampleCode returns the body of an example test, or "" if there is none.
func exampleCode(t *testing.T, pkgs map[string]*pkg, where, fn string) string {
	t.Helper()
	for path, p := range pkgs {
		if path != where && !strings.HasSuffix(path, "/"+where) {
			continue
		}
		for _, f := range p.files {
			for _, d := range f.Decls {
				decl, ok := d.(*ast.FuncDecl)
				if !ok || decl.Name.Name != fn {
					continue
				}
				return body(t, f, decl)
			}
		}
	}
	return ""
}

// body returns the statements of a function without their indentation.
func body(t *testing.T, f *file, fn *ast.FuncDecl) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, f.name))
	if err != nil {
		t.Fatal(err)
	}
	code := text[f.fset.Position(fn.Body.Lbrace).Offset+1 : f.fset.Position(fn.Body.Rbrace).Offset]
	var b strings.Builder
	for line := range strings.Lines(strings.Trim(string(code), "\n")) {
		b.WriteString(strings.TrimPrefix(line, "\t"))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
