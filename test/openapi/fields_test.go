package openapi

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/kinds"
	"agentd/internal/base/clock"
	"agentd/internal/edge/httpapi"
	"agentd/internal/kernel/resource"
)

// fieldsFile lists the fields of request bodies with the tests that show their effect.
const fieldsFile = "testdata/fields.txt"

// listed is what the file says of a field.
type listed struct {
	test string
	line int
}

// published is a schema of the document, as far as the fields of bodies need it.
type published struct {
	Ref         string                `json:"$ref"`
	Description string                `json:"description"`
	Properties  map[string]*published `json:"properties"`
	Items       *published            `json:"items"`
	More        any                   `json:"additionalProperties"`
	Title       string                `json:"title"`
	ReadOnly    bool                  `json:"readOnly"`
	Order       []string              `json:"x-order"`
	AnyOf       []*published          `json:"anyOf"`
	OneOf       []*published          `json:"oneOf"`
	AllOf       []*published          `json:"allOf"`
}

// bodies collects the fields of the document's request bodies.
type bodies struct {
	schemas map[string]*published
	fields  map[string]map[string]bool // of each schema, and whether a description says that the field has no effect
	plain   map[string]bool            // schemas of plain kinds, whose fields are kept and shown: resourcetest.Kind tests that
}

// Every field of a request body is in the file, or described as having no effect, or
// a plain kind's.
// What the named tests are is checked by TestFieldsHaveTests in internal/archtest.
func TestFieldsAreListed(t *testing.T) {
	t.Parallel()
	inFile := readFields(t)
	b := readBodies(t)
	inDocument := b.fields
	for schema, fields := range inDocument {
		for field, idle := range fields {
			at, found := inFile[schema][field]
			switch {
			case !found && !idle && !b.plain[schema]:
				t.Errorf("%s: %s.%s is missing: name the test that fails where the field does nothing; "+
					"or, if it has no effect, let its description end with \"Kept and shown; has no effect yet.\"", fieldsFile, schema, field)
			case found && idle:
				t.Errorf("%s:%d: %s.%s has an effect that %s shows, and its description says that it has none", fieldsFile, at.line, schema, field, at.test)
			}
		}
	}
	for schema, fields := range inFile {
		for field, at := range fields {
			if _, has := inDocument[schema][field]; !has {
				t.Errorf("%s:%d: no request body has %s.%s", fieldsFile, at.line, schema, field)
			}
		}
	}
}

// readFields reads the file: the fields of each schema.
func readFields(t *testing.T) map[string]map[string]listed {
	t.Helper()
	text, err := os.ReadFile(fieldsFile)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]listed{}
	same := map[string]string{}
	schema := ""
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case line == "" || line[0] == '#':
		case line[0] != ' ':
			name, other, _ := strings.Cut(line, " = ")
			if schema = name; all[schema] != nil {
				t.Errorf("%s:%d: %s stands twice", fieldsFile, i+1, schema)
			}
			all[schema] = map[string]listed{}
			if other != "" {
				same[schema] = other
			}
		default:
			test, fields, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if !ok {
				t.Fatalf("%s:%d: not \"package.TestName: field field\"", fieldsFile, i+1)
			}
			for field := range strings.FieldsSeq(fields) {
				if _, twice := all[schema][field]; twice {
					t.Errorf("%s:%d: %s.%s stands twice", fieldsFile, i+1, schema, field)
				}
				all[schema][field] = listed{test, i + 1}
			}
		}
	}
	inDocument := readBodies(t).fields
	for schema, other := range same {
		for field, at := range all[other] {
			if _, has := inDocument[schema][field]; has {
				all[schema][field] = at
			}
		}
	}
	return all
}

func readBodies(t *testing.T) *bodies {
	t.Helper()
	text, err := httpapi.OpenAPI(routes(t), endpoints())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			ID   string `json:"operationId"`
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
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	b := &bodies{schemas: doc.Components.Schemas, fields: map[string]map[string]bool{}, plain: map[string]bool{}}
	ofPlainKinds := map[string]bool{}
	for _, r := range kinds.Routes(resource.Deps{Clock: clock.System{}}) {
		ofPlainKinds[r.ID] = true
	}
	collect := func(ofPlain bool) {
		for _, operations := range doc.Paths {
			for _, o := range operations {
				for _, media := range slices.Sorted(maps.Keys(o.Body.Content)) {
					if ofPlainKinds[o.ID] == ofPlain {
						b.add(o.ID, o.Body.Content[media].Schema, false)
					}
				}
			}
		}
	}
	collect(false)
	others := maps.Clone(b.fields)
	collect(true)
	for schema := range b.fields {
		b.plain[schema] = others[schema] == nil
	}
	return b
}

// add collects the fields of a schema. idle is whether the field that it belongs to has
// no effect.
func (b *bodies) add(owner string, s *published, idle bool) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		owner = s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
		if b.fields[owner] != nil {
			return
		}
		b.fields[owner] = map[string]bool{}
		s = b.schemas[owner]
	}
	for name, field := range s.Properties {
		if b.fields[owner] == nil {
			b.fields[owner] = map[string]bool{}
		}
		without := idle || field.ReadOnly || idleByItsWords(field.Description)
		b.fields[owner][name] = without
		b.add(owner, withoutFields(field), without)
	}
	b.add(owner, s.Items, idle)
	for _, one := range slices.Concat(s.AnyOf, s.OneOf, s.AllOf) {
		b.add(owner, one, idle)
	}
}

// withoutFields is a field's schema: what it refers to and holds, without the fields
// of an object that has no name, which belong to no schema.
func withoutFields(s *published) *published {
	cut := *s
	cut.Properties = nil
	return &cut
}

func idleByItsWords(description string) bool {
	for _, words := range []string{"no effect", "no other effect", "not sent to the model", "Ignored:", "Informational;"} {
		if strings.Contains(description, words) && !strings.Contains(description, "Members that are not listed") &&
			!strings.HasPrefix(description, "Type create") {
			return true
		}
	}
	return false
}
