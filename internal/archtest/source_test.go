package archtest

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// root is the module's directory, seen from this package's.
const root = "../.."

// module is the module's path.
const module = "agentd"

// file is one parsed Go file.
type file struct {
	*ast.File
	fset      *token.FileSet
	name      string // from the module's root
	lines     int
	test      bool // _test.go
	generated bool
	imports   []string
}

// pkg is what one directory holds, tests included.
type pkg struct {
	path  string // from the module's root: "internal/execution/run"
	files []*file
}

// testSupport reports whether the package exists for tests only: eventtest,
// sqldbtest and the like.
func (p *pkg) testSupport() bool { return strings.HasSuffix(p.path, "test") }

// production gives the files that can end up in a program.
func (p *pkg) production() []*file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f *file) bool { return f.test })
}

// tree gives every package of the module by its path. It is read with os and
// go/parser instead of by the go command, so that go test knows which files a
// cached result depends on; build constraints are ignored on purpose.
func tree(t *testing.T) map[string]*pkg {
	t.Helper()
	pkgs, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

var parsed = sync.OnceValues(func() (map[string]*pkg, error) {
	pkgs := map[string]*pkg{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(path, d.Name())
		}
		if !strings.HasSuffix(d.Name(), ".go") {
			return nil
		}
		f, err := parse(path)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(f.name))
		if pkgs[dir] == nil {
			pkgs[dir] = &pkg{path: dir}
		}
		pkgs[dir].files = append(pkgs[dir].files, f)
		return nil
	})
	return pkgs, err
})

// skip leaves out what the go command leaves out, and other modules.
func skip(path, name string) error {
	if path == root {
		return nil
	}
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules" {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); !errors.Is(err, fs.ErrNotExist) {
		return fs.SkipDir
	}
	return nil
}

func parse(path string) (*file, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	name, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &file{
		File: parsed, fset: fset, name: filepath.ToSlash(name), lines: strings.Count(string(text), "\n"),
		test: strings.HasSuffix(path, "_test.go"), generated: ast.IsGenerated(parsed),
	}
	for _, i := range parsed.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, err
		}
		f.imports = append(f.imports, p)
	}
	return f, nil
}

// line gives a place in the file for a message.
func (f *file) line(pos token.Pos) string {
	return f.name + ":" + strconv.Itoa(f.fset.Position(pos).Line)
}

// ours gives an import path from the module's root; ok is false for the
// packages of others.
func ours(path string) (rel string, ok bool) { return strings.CutPrefix(path, module+"/") }

// standard reports whether the import is of the standard library.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && first != module
}
