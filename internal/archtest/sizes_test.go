package archtest

import (
	"bufio"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"unicode/utf8"
)

// Where something must be split. Most files are below 150 lines, most
// functions below 30.
const (
	maxFileLines     = 500 // of production code
	maxTestFileLines = 800
	maxFuncLines     = 80
	maxMethods       = 40
	maxColumns       = 140
)

func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		for _, f := range p.files {
			limit := maxFileLines
			if f.test {
				limit = maxTestFileLines
			}
			if f.lines > limit && !f.generated {
				t.Errorf("%s has %d lines; split it before %d", f.name, f.lines, limit)
			}
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		for _, f := range p.production() {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Body == nil || f.generated {
					continue
				}
				lines := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
				if lines > maxFuncLines {
					t.Errorf("%s: %s has %d lines; split it before %d", f.line(fn.Pos()), fn.Name.Name, lines, maxFuncLines)
				}
			}
		}
	}
}

// A type with more methods serves several purposes: it is several types.
func TestTypesHaveFewMethods(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		methods := map[string]int{}
		for _, f := range p.production() {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
					methods[receiver(fn)]++
				}
			}
		}
		for name, n := range methods {
			if n > maxMethods {
				t.Errorf("%s.%s has %d methods; make it several types before %d", p.path, name, n, maxMethods)
			}
		}
	}
}

// receiver returns the name of a method's type, without its parameters.
func receiver(fn *ast.FuncDecl) string {
	e := fn.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// Lines fit beside a second window. A struct tag cannot be broken and may be
// longer.
func TestLinesAreShort(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		if p.testSupport() {
			continue // tables of fixtures
		}
		for _, f := range p.production() {
			checkColumns(t, f)
		}
	}
}

var structTag = regexp.MustCompile("`[a-z]+:\".*`( //.*)?$")

func checkColumns(t *testing.T, f *file) {
	t.Helper()
	text, err := os.Open(filepath.Join(root, f.name))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		columns := utf8.RuneCountInString(line)
		tag := structTag.MatchString(line)
		if columns > maxColumns && !tag {
			t.Errorf("%s:%d has %d columns; break it before %d", f.name, n, columns, maxColumns)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
