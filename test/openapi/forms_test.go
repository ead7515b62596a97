package openapi

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/edge/httpapi"
)

// shown is the document, as far as the texts beside its fields need it.
type shown struct {
	Paths map[string]map[string]struct {
		ID         string `json:"operationId"`
		Parameters []struct {
			Ref         string `json:"$ref"`
			Name        string `json:"name"`
			Description string `json:"description"`
		} `json:"parameters"`
		Body struct {
			Content map[string]struct {
				Schema *published `json:"schema"`
			} `json:"content"`
		} `json:"requestBody"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]*published `json:"schemas"`
	} `json:"components"`
}

// Forms are drawn from the document: every field of a request body and every
// parameter has a description, every field a title, and every object the order of
// its fields.
func TestFormsCanBeDrawn(t *testing.T) {
	t.Parallel()
	text, err := httpapi.OpenAPI(routes(t), endpoints())
	if err != nil {
		t.Fatal(err)
	}
	var doc shown
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	f := forms{t: t, schemas: doc.Components.Schemas, seen: map[string]bool{}}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, o := range doc.Paths[path] {
			for _, p := range o.Parameters {
				if p.Ref == "" && p.Description == "" {
					t.Errorf("%s: the parameter %s has no description: give it the tag doc", o.ID, p.Name)
				}
			}
			for _, content := range o.Body.Content {
				f.check(o.ID, content.Schema)
			}
		}
	}
	if len(f.seen) < 100 {
		t.Errorf("only %d schemas were checked", len(f.seen))
	}
}

type forms struct {
	t       *testing.T
	schemas map[string]*published
	seen    map[string]bool
}

// check checks the fields of a schema of a request body. owner is its name, or that
// of the operation.
func (f *forms) check(owner string, s *published) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		owner = s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
		if f.seen[owner] {
			return
		}
		f.seen[owner] = true
		s = f.schemas[owner]
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		if field.Description == "" {
			f.t.Errorf("%s.%s has no description: give it the tag doc, with its unit and its default", owner, name)
		}
		if field.Title == "" && field.Ref == "" {
			f.t.Errorf("%s.%s has no title", owner, name)
		}
		f.check(owner, field)
	}
	if sorted := slices.Sorted(slices.Values(s.Order)); len(s.Properties) > 1 && !slices.Equal(sorted, slices.Sorted(maps.Keys(s.Properties))) {
		f.t.Errorf("%s: x-order is %q, want each of its fields once", owner, s.Order)
	}
	f.check(owner, s.Items)
	for _, one := range slices.Concat(s.AnyOf, s.OneOf, s.AllOf) {
		f.check(owner, one)
	}
}
