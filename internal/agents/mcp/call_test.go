package mcp_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

// call invokes a route as the edge does: id becomes the path parameter, body is
// validated and decoded.
func call(ctx context.Context, r route.Route, who authz.Caller, id, body string) (any, error) {
	in := reflect.New(r.In)
	for i := range r.In.NumField() {
		f := r.In.Field(i)
		if f.Tag.Get("path") != "" {
			in.Elem().Field(i).SetString(id)
		}
		if f.Name == "Body" {
			if err := schema.For(f.Type).DecodeInto([]byte(body), in.Elem().Field(i).Addr().Interface(), false); err != nil {
				return nil, err
			}
		}
	}
	return r.Call(ctx, who, in.Interface())
}

// member returns a string member of an answer.
func member(t *testing.T, answer any, name string) string {
	t.Helper()
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	s, _ := o[name].(string)
	return s
}
