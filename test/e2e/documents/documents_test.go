// Package documents compares the committed documents that are made from the
// program with a running server: the OpenAPI document and the table of tools.
package documents

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/schema"
	"agentd/internal/edge/httpapi"
	"agentd/internal/goldentest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object

// The committed document is what this program serves: whoever changes an
// operation sees in the diff what that does to callers.
func TestDocumentIsFresh(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	got, err := httpapi.OpenAPI(n.App.Routes())
	if err != nil {
		t.Fatal(err)
	}
	if served := n.Do("GET", "/api/v1/openapi.json", nil); string(served.Body) != string(got) {
		t.Error("the server serves another document than its routes make")
	}
	goldentest.Check(t, "../../../api/openapi.json", got)
}

// Schemas are compiled when they are first used, so a bad tag would show at a request.
func TestSchemasAreValid(t *testing.T) {
	t.Parallel()
	apptest.Start(t, nil)
	if count := schema.CompileAll(); count < 500 {
		t.Errorf("only %d schemas were found", count)
	}
}

// The table of built-in tools is made from the registry of a running agentd.
func TestToolsAreDocumented(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	list := n.Expect(200, "GET", "/api/v1/admin/tools", nil)
	var table strings.Builder
	table.WriteString("| Tool | Arguments | After a crash | Time |\n|---|---|---|---|\n")
	for _, entry := range list["tools"].([]any) {
		e := entry.(object)
		parameters := e["parameters"].(object)
		var arguments []string
		required, _ := parameters["required"].([]any)
		for name, schema := range parameters["properties"].(object) {
			kind := fmt.Sprint(schema.(object)["type"])
			if kinds, several := schema.(object)["type"].([]any); several {
				kind = fmt.Sprint(kinds[0])
			}
			note := ", optional"
			if slices.Contains(required, any(name)) {
				note = ""
			}
			arguments = append(arguments, fmt.Sprintf("`%s` (%s%s)", name, kind, note))
		}
		slices.SortFunc(arguments, func(a, b string) int { // what is required first
			return cmp.Or(strings.Count(a, "optional")-strings.Count(b, "optional"), strings.Compare(a, b))
		})
		repeat := "reported as interrupted"
		switch {
		case e["read_only"] == true:
			repeat = "repeated: it only reads"
		case e["idempotent"] == true:
			repeat = "repeated: twice has the effect of once"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %v |\n", e["name"], strings.Join(arguments, ", "), repeat, time.Duration(e["timeout_ms"].(float64))*time.Millisecond)
	}
	const page = "../../../docs/tools.md"
	goldentest.CheckPart(t, page, "<!-- tools: made by the tests -->", "<!-- end of tools -->", []byte(table.String()))
	doc, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list["tools"].([]any) {
		if name := e.(object)["name"].(string); strings.Count(string(doc), "`"+name+"`") < 2 {
			t.Errorf("docs/tools.md says nothing of %s beside the table", name)
		}
	}
}
