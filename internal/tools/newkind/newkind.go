// Command newkind writes a new kind of resource: its package with a filter,
// webhook events and versions, its test and its page of the documentation, and
// the lines that list it elsewhere.
//
//	go run ./internal/tools/newkind commerce/product
//	go run ./internal/tools/newkind -plural replies teams/reply
//
// Run it in the root of the repository. What it writes compiles and passes its
// tests; then edit the fields, and see docs/adding-a-resource.md.
package main

import (
	"bytes"
	"embed"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

//go:embed templates/*.tmpl
var templates embed.FS

func main() {
	plural := flag.String("plural", "", "plural of the name, in snake case; the name and an s if it is left out")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: newkind [-plural NAMES] FAMILY/NAME, such as commerce/order_line")
		os.Exit(2)
	}
	k, err := newKind(flag.Arg(0), *plural)
	if err == nil {
		err = k.write(".")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "newkind:", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout,
		"Wrote internal/%s/%s. Edit its fields and docs/%s.md, then run: go test ./internal/%s/%s && make golden contract\n",
		k.Family, k.Package, k.Names, k.Family, k.Package)
}

// kind has what the templates need of a kind.
type kind struct {
	Family  string // commerce
	Name    string // order_line
	Names   string // order_lines
	Package string // orderline
	Type    string // OrderLine
	Words   string // order line
	Plural  string // order lines
	Title   string // Order lines
	Tag     string // Commerce
	Path    string // commerce/order-lines
	Article string // A, or An
}

var snake = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// newKind derives a kind from a family and a name in snake case.
func newKind(place, plural string) (*kind, error) {
	family, name, _ := strings.Cut(place, "/")
	if plural == "" {
		plural = name + "s"
	}
	if !snake.MatchString(name) || !snake.MatchString(plural) || !regexp.MustCompile(`^[a-z]+$`).MatchString(family) {
		return nil, fmt.Errorf("%q is no family and name in snake case, such as commerce/order_line", place)
	}
	words := func(s string) string { return strings.ReplaceAll(s, "_", " ") }
	capital := func(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
	k := &kind{
		Family: family, Name: name, Names: plural, Package: strings.ReplaceAll(name, "_", ""),
		Words: words(name), Plural: words(plural), Title: capital(words(plural)), Tag: capital(family),
		Path: family + "/" + strings.ReplaceAll(plural, "_", "-"), Article: "A",
	}
	for part := range strings.SplitSeq(name, "_") {
		k.Type += capital(part)
	}
	if strings.ContainsRune("aeio", rune(name[0])) {
		k.Article = "An"
	}
	return k, nil
}

// write writes the kind's files below root and edits the lists that name it. It
// refuses to write anything if the package exists, or a list is not as it was.
func (k *kind) write(root string) error {
	files := map[string][]byte{}
	dir := filepath.Join("internal", k.Family, k.Package)
	if _, err := os.Stat(filepath.Join(root, "internal", k.Family)); err != nil {
		return fmt.Errorf("there is no family %s: see docs/architecture.md", k.Family)
	}
	for name, source := range map[string]string{
		filepath.Join(dir, k.Package+".go"):      "kind.go.tmpl",
		filepath.Join(dir, k.Package+"_test.go"): "kind_test.go.tmpl",
		filepath.Join("docs", k.Names+".md"):     "page.md.tmpl",
	} {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			return fmt.Errorf("%s exists", name)
		}
		text, err := k.render(source)
		if err != nil {
			return err
		}
		files[name] = text
	}
	for name, edit := range map[string]func(string) (string, error){
		"internal/app/kinds/kinds.go":  k.list,
		"internal/base/authz/authz.go": k.addScopes,
		"docs/README.md":               k.addPage,
		"CHANGELOG.md":                 k.addChange,
	} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		edited, err := edit(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		files[name] = []byte(edited)
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (k *kind) render(source string) ([]byte, error) {
	t, err := template.ParseFS(templates, "templates/"+source)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, k); err != nil {
		return nil, err
	}
	if !strings.Contains(source, ".go.") {
		return out.Bytes(), nil
	}
	return format.Source(out.Bytes())
}

// list adds the kind to those that the program serves.
func (k *kind) list(text string) (string, error) {
	text, err := insertSorted(text, "import (\n", "\n)", fmt.Sprintf("\t\"agentd/internal/%s/%s\"", k.Family, k.Package))
	if err != nil {
		return "", err
	}
	row := fmt.Sprintf("\tresource.PlainVersioned(%[1]s.Kind, %[1]s.Versions),", k.Package)
	return insertAtEnd(text, "var All = []resource.Plain{\n", "\n}", row)
}

func (k *kind) addScopes(text string) (string, error) {
	const table = "byDefault bool // granted to a key whose scopes are not stated\n}{\n"
	for _, row := range []string{`:read", Viewer, false},`, `:write", Developer, false},`} {
		var err error
		if text, err = insertSorted(text, table, "\n}\n", "\t{\""+k.Names+row); err != nil {
			return "", err
		}
	}
	return text, nil
}

func (k *kind) addPage(text string) (string, error) {
	line := fmt.Sprintf("- [%s](%s.md): what they are, their versions and events", k.Title, k.Names)
	return insertAtEnd(text, "# Documentation\n", "\n\n## Operating agentd", line)
}

func (k *kind) addChange(text string) (string, error) {
	const heading = "### Added\n\n"
	if !strings.Contains(text, heading) {
		return "", errChanged
	}
	line := fmt.Sprintf("- %s: create, read, list, change, delete, versions, webhook events ([%s](docs/%s.md)).", k.Title, k.Plural, k.Names)
	return strings.Replace(text, heading, heading+line+"\n", 1), nil
}

var errChanged = errors.New("it is not as newkind knows it; add the kind by hand, and mend internal/tools/newkind")

// insertSorted adds a line to a sorted block between two texts.
func insertSorted(text, after, before, line string) (string, error) {
	head, block, tail, ok := cut(text, after, before)
	if !ok {
		return "", errChanged
	}
	lines := strings.Split(block, "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return l > line })
	if at < 0 {
		at = len(lines)
	}
	return head + strings.Join(slices.Insert(lines, at, line), "\n") + tail, nil
}

// insertAtEnd adds a line to the end of a block between two texts.
func insertAtEnd(text, after, before, line string) (string, error) {
	head, block, tail, ok := cut(text, after, before)
	if !ok {
		return "", errChanged
	}
	return head + block + "\n" + line + tail, nil
}

func cut(text, after, before string) (head, block, tail string, ok bool) {
	begin, rest, ok := strings.Cut(text, after)
	if !ok {
		return "", "", "", false
	}
	block, end, ok := strings.Cut(rest, before)
	return begin + after, block, before + end, ok
}
