package openapi

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/edge/httpapi"
)

// Generators of clients name the type of a field that lists its values after the schema
// and the field, so Initiative and its status are InitiativeStatus: no schema has that
// name. make test-generated runs a generator, which takes minutes.
func TestNamesSuitGenerators(t *testing.T) {
	t.Parallel()
	text, err := httpapi.OpenAPI(routes(t), endpoints())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Enum       []any          `json:"enum"`
					Properties map[string]any `json:"properties"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	schemas := doc.Components.Schemas
	types := 0
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		for field, s := range schemas[name].Properties {
			if s.Enum == nil && s.Properties == nil {
				continue
			}
			types++
			generated := name
			for word := range strings.SplitSeq(field, "_") {
				generated += strings.ToUpper(word[:1]) + word[1:]
			}
			if _, taken := schemas[generated]; taken {
				t.Errorf("generators give the field %s of the schema %s the type %s, which is a schema too: call the schema otherwise", field, name, generated)
			}
		}
	}
	if types < 100 {
		t.Errorf("%d fields have types of their own: is the document read?", types)
	}
}
