package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const fieldsDoc = "test/openapi/testdata/fields.txt"

// A field of a request body names a test that exists, in a package whose tests name the
// field: as the API spells it, or as Go does.
func TestFieldsHaveTests(t *testing.T) {
	t.Parallel()
	pkgs := tree(t)
	text, err := os.ReadFile(filepath.Join(root, fieldsDoc))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		test, fields, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if !strings.HasPrefix(line, "  ") {
			continue
		}
		if why := missing(pkgs, test); why != "" {
			t.Errorf("%s:%d: %s: %s", fieldsDoc, i+1, test, why)
			continue
		}
		where, _, _ := strings.Cut(test, ".")
		tests := testsOf(t, pkgs, where)
		for field := range strings.FieldsSeq(fields) {
			if !spelled(field).MatchString(tests) {
				t.Errorf("%s:%d: no test of %s names %s", fieldsDoc, i+1, where, field)
			}
		}
	}
}

// The fields of plain kinds are shown to be kept by their suite, so each of them runs it.
func TestPlainKindsHaveTheSuite(t *testing.T) {
	t.Parallel()
	pkgs := tree(t)
	suite := regexp.MustCompile(`\bresourcetest\.(Kind|Versioned)\(`)
	checked := 0
	var imports []string
	for _, f := range pkgs["internal/app/kinds"].production() {
		imports = append(imports, f.imports...)
	}
	for _, imported := range imports {
		path := strings.TrimPrefix(imported, "agentd/")
		if path == imported || strings.HasPrefix(path, "internal/base/") || strings.HasPrefix(path, "internal/kernel/") {
			continue
		}
		checked++
		if !suite.MatchString(testsOf(t, pkgs, path)) {
			t.Errorf("no test of %s calls resourcetest.Kind or resourcetest.Versioned", path)
		}
	}
	if checked == 0 {
		t.Error("internal/app/kinds imports no kind")
	}
}

// testsOf returns the text of a package's test files.
func testsOf(t *testing.T, pkgs map[string]*pkg, name string) string {
	t.Helper()
	var all strings.Builder
	for path, p := range pkgs {
		if path != name && !strings.HasSuffix(path, "/"+name) {
			continue
		}
		for _, f := range p.files {
			if f.test {
				text, err := os.ReadFile(filepath.Join(root, f.name))
				if err != nil {
					t.Fatal(err)
				}
				all.Write(text)
			}
		}
	}
	return all.String()
}

// spelled matches a field as JSON and as Go write it: max_cost_usd, MaxCostUSD.
func spelled(field string) *regexp.Regexp {
	var goName strings.Builder
	for word := range strings.SplitSeq(field, "_") {
		goName.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return regexp.MustCompile(`\b(` + regexp.QuoteMeta(field) + `|(?i:` + regexp.QuoteMeta(goName.String()) + `))\b`)
}
