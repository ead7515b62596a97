package app_test

import (
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"agentd/internal/base/ident"
	"agentd/internal/edge/httpapi"
	"agentd/internal/goldentest"
	"agentd/internal/kernel/model/modeltest"
)

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
	goldentest.Check(t, "../../api/openapi.json", got)
}

// What is answered is what the document says: every field of an answer is
// published with its type, and every required one is there.
func TestAnswersAreAsPublished(t *testing.T) {
	t.Parallel()
	heavy(t)
	c := owned(t, start(t, modeltest.New(t, silent), searching(t), embedding, roaming))
	operations := c.operations()
	slices.SortStableFunc(operations, deletionsLast)
	for _, op := range operations {
		if op.page {
			continue
		}
		t.Run(op.name(), func(t *testing.T) {
			c := c.in(t)
			calls := []*call{c.own(op)}
			for _, p := range op.params { // things in other states too
				for _, id := range c.ids[p][1:] {
					if op.Method == http.MethodGet && !op.streams && len(op.params) == 1 && !plainParameters[p] {
						k := c.own(op)
						k.path[p] = id
						calls = append(calls, k)
					}
				}
			}
			for _, k := range calls {
				if slices.Contains(op.queries, "timeout_sec") {
					k.query.Set("timeout_sec", "1")
				}
				r := k.send(c.node)
				op.checkPublished(t, r.StatusCode)
				if !op.okStatus(r.StatusCode) {
					if !op.worldly() {
						t.Fatalf("%d %s", r.StatusCode, r.raw)
					}
					continue
				}
				if schema := op.answers[strconv.Itoa(r.StatusCode)]; schema != nil {
					for _, complaint := range op.compare(schema, r.value(), "") {
						t.Errorf("status %d: %s\n%s", r.StatusCode, complaint, r.raw)
					}
				} else if len(op.answers) > 0 && !op.streams && !op.bytes && r.StatusCode != http.StatusNoContent {
					t.Errorf("nothing is published of the answer %d: %s", r.StatusCode, r.raw)
				}
			}
		})
	}
}

// compare says where a value is not as a schema has it.
func (o *operation) compare(s *apiSchema, v any, at string) (wrong []string) {
	s = o.resolve(s)
	if s == nil {
		return nil
	}
	if len(s.AnyOf) > 0 {
		for _, alternative := range s.AnyOf {
			if wrong = o.compare(alternative, v, at); wrong == nil {
				return nil
			}
		}
		return wrong
	}
	if !s.takes(v) {
		return []string{fmt.Sprintf("%s is %v, which is no %v", at, v, s.Type)}
	}
	if len(s.Enum) > 0 && v != nil && !slices.Contains(s.Enum, v) {
		wrong = append(wrong, fmt.Sprintf("%s is %v, which is none of %v", at, v, s.Enum))
	}
	switch v := v.(type) {
	case string:
		_, err := time.Parse(time.RFC3339Nano, v)
		if s.Format == "date-time" && err != nil || s.Format == "uuid" && !ident.Valid(v) {
			wrong = append(wrong, fmt.Sprintf("%s is %q, which is no %s", at, v, s.Format))
		}
	case []any:
		for i, item := range v {
			wrong = append(wrong, o.compare(s.Items, item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case object:
		for _, name := range s.Required {
			if _, has := v[name]; !has {
				wrong = append(wrong, at+"."+name+" is missing")
			}
		}
		for name, value := range v {
			property := s.Properties[name]
			if property == nil && s.More == nil && s.Type != nil {
				wrong = append(wrong, at+"."+name+" is not published")
			}
			wrong = append(wrong, o.compare(property, value, at+"."+name)...)
		}
	}
	return wrong
}

// takes says whether a schema's types include that of a value.
func (s *apiSchema) takes(v any) bool {
	names, many := s.Type.([]any)
	if !many {
		if s.Type == nil {
			return true
		}
		names = []any{s.Type}
	}
	kind := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number", reflect.Slice: "array", reflect.Map: "object", reflect.Invalid: "null",
	}[reflect.ValueOf(v).Kind()]
	number, _ := v.(float64)
	return slices.Contains(names, any(kind)) || kind == "number" && number == math.Trunc(number) && slices.Contains(names, any("integer"))
}
