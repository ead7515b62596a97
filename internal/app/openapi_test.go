package app_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/httpapi"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The committed document is what this program serves: whoever changes an
// operation sees in the diff what that does to callers.
func TestDocumentIsFresh(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	got, err := httpapi.OpenAPI(n.app.Routes())
	if err != nil {
		t.Fatal(err)
	}
	if served := n.do("GET", "/api/v1/openapi.json", nil); string(served.raw) != string(got) {
		t.Error("the server serves another document than its routes make")
	}
	golden := filepath.Join("..", "..", "api", "openapi.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("api/openapi.json is stale; make golden writes it anew:\n%s", diff)
	}
}
