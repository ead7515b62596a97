package contract

import (
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

// What is answered is what the document says: every field of an answer is
// published with its type, and every required one is there.
func TestAnswersAreAsPublished(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	c := contracttest.NewOwnCompany(t, apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.WebSearch(t), apptest.Embedding, apptest.AddressPerRequest))
	operations := contracttest.Operations(c.Server)
	slices.SortStableFunc(operations, contracttest.DeletionsLast)
	for _, op := range operations {
		if op.NeedsPerson {
			continue
		}
		t.Run(op.TestName(), func(t *testing.T) {
			c := c.WithT(t)
			calls := []*contracttest.Call{c.OwnCall(op)}
			for _, p := range op.PathParams { // things in other states too
				for _, id := range c.IDs[p][1:] {
					if op.Method == http.MethodGet && !op.Streams && len(op.PathParams) == 1 && !contracttest.PlainParameters[p] {
						k := c.OwnCall(op)
						k.Path[p] = id
						if op.ID != "getBridgeTaskApproval" { // an approval belongs to one task
							calls = append(calls, k)
						}
					}
				}
			}
			for _, k := range calls {
				if slices.Contains(op.QueryParams, "timeout_sec") {
					k.Query.Set("timeout_sec", "1")
				}
				r := k.Send(c.Server)
				op.CheckPublished(t, r.StatusCode)
				if !op.Succeeds(r.StatusCode) {
					if !op.NeedsWorld() {
						t.Fatalf("%d %s", r.StatusCode, r.Body)
					}
					continue
				}
				if schema := op.AnswerSchemas[strconv.Itoa(r.StatusCode)]; schema != nil {
					for _, complaint := range compareWithSchema(op, schema, r.Value(), "") {
						t.Errorf("status %d: %s\n%s", r.StatusCode, complaint, r.Body)
					}
				} else if len(op.AnswerSchemas) > 0 && !op.Streams && !op.AnswersFile && !op.AnswersLines && r.StatusCode != http.StatusNoContent {
					t.Errorf("nothing is published of the answer %d: %s", r.StatusCode, r.Body)
				}
			}
		})
	}
}

// compareWithSchema says where a value is not as a schema has it.
func compareWithSchema(o *contracttest.Operation, s *contracttest.Schema, v any, at string) (wrong []string) {
	s = o.Resolve(s)
	if s == nil {
		return nil
	}
	if len(s.AnyOf) > 0 {
		for _, alternative := range s.AnyOf {
			if wrong = compareWithSchema(o, alternative, v, at); wrong == nil {
				return nil
			}
		}
		return wrong
	}
	if !schemaTakes(s, v) {
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
			wrong = append(wrong, compareWithSchema(o, s.Items, item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case object:
		for _, name := range s.Required {
			if _, has := v[name]; !has {
				wrong = append(wrong, at+"."+name+" is missing")
			}
		}
		for name, value := range v {
			property := s.Properties[name]
			if property == nil && s.More == nil && !s.Open && s.Type != nil && !slices.Contains(s.Aliases, name) {
				wrong = append(wrong, at+"."+name+" is not published")
			}
			wrong = append(wrong, compareWithSchema(o, property, value, at+"."+name)...)
		}
	}
	return wrong
}

// schemaTakes reports whether a schema's types include that of a value.
func schemaTakes(s *contracttest.Schema, v any) bool {
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
