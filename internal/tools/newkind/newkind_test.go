package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// lists are the files that newkind edits.
var lists = []string{"internal/app/kinds/kinds.go", "internal/base/authz/authz.go", "docs/README.md", "CHANGELOG.md"}

// scratch returns a copy of what newkind edits.
func scratch(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range lists {
		text, err := os.ReadFile(filepath.Join("../../..", name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "internal/commerce"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

// What newkind writes compiles, is listed, and passes its own tests.
func TestNewKindsPass(t *testing.T) {
	t.Parallel()
	root := scratch(t)
	k, err := newKind("commerce/order_example", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.write(root); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	replaced := map[string]string{}
	for _, name := range []string{
		"internal/commerce/orderexample/orderexample.go", "internal/commerce/orderexample/orderexample_test.go", "internal/app/kinds/kinds.go",
	} {
		replaced[filepath.Join(here, name)] = filepath.Join(root, name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "overlay.json"), overlay, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = here
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	flag, tests := "-overlay="+filepath.Join(root, "overlay.json"), filepath.Join(root, "tests")
	run("go", "build", flag, "./internal/app/kinds")
	run("go", "test", flag, "-vet=off", "-c", "-o", tests, "./internal/commerce/orderexample")
	run(tests, "-test.run=/sqlite")

	for name, parts := range map[string][]string{
		"internal/app/kinds/kinds.go":  {"resource.PlainVersioned(orderexample.Kind, orderexample.Versions),"},
		"internal/base/authz/authz.go": {`{"order_examples:read", Viewer, false},` + "\n\t" + `{"order_examples:write", Developer, false},` + "\n\t" + `{"read:analytics"`},
		"docs/README.md":               {"- [Order examples](order_examples.md): "},
		"CHANGELOG.md":                 {"### Added\n\n- Order examples: ", "\n- Agents: "},
		"docs/order_examples.md":       {"# Order examples\n", "/api/v1/commerce/order-examples "},
	} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %q:\n%s", name, part, text)
			}
		}
	}
	if err := k.write(root); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("written twice: %v", err)
	}
}

// Nothing is written where a name is wrong, or a list is not as it was.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"", "product", "commerce/", "commerce/Product", "commerce/a/b", "../x", "commerce/1", "commerce/a_", "Commerce/a"} {
		if _, err := newKind(place, ""); err == nil {
			t.Errorf("%q is accepted", place)
		}
	}
	if k, err := newKind("teams/reply", "replies"); err != nil || k.Names != "replies" || k.Path != "teams/replies" {
		t.Errorf("%+v, %v", k, err)
	}
	for _, broken := range lists {
		root := scratch(t)
		if err := os.WriteFile(filepath.Join(root, broken), []byte("another file"), 0o644); err != nil {
			t.Fatal(err)
		}
		k, err := newKind("commerce/product", "")
		if err == nil {
			err = k.write(root)
		}
		if err == nil || !strings.Contains(err.Error(), broken) {
			t.Errorf("%s has changed: %v", broken, err)
		}
		if left, _ := filepath.Glob(filepath.Join(root, "internal/commerce/*")); len(left) > 0 {
			t.Errorf("%s has changed, and these are left: %v", broken, left)
		}
	}
	k, err := newKind("nowhere/product", "")
	if err == nil {
		err = k.write(scratch(t))
	}
	if err == nil || !strings.Contains(err.Error(), "family") {
		t.Errorf("an unknown family: %v", err)
	}
}
