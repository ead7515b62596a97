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

// call makes a call of a row as the edge does: id goes where the path has a
// parameter, body is checked and decoded.
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

// agentField gives a member of an answer that is a string.
func agentField(t *testing.T, answer any, name string) string {
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
