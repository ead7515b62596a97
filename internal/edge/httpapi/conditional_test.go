package httpapi

import (
	"context"
	"net/http"
	"testing"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// lamp has a color, which clients change, and a temperature, which they do not.
type lamp struct {
	Color string `json:"color"`
	Heat  int    `json:"heat"`
}

func (l *lamp) Editable() any {
	if l == nil {
		return nil
	}
	return l.Color
}

func TestConditionalRequests(t *testing.T) {
	t.Parallel()
	var now *lamp
	row := route.Row{Path: "/api/v1/lamp", Conditional: true, Nullable: true}
	get, put, del := row, row, row
	get.Method, get.ID, put.Method, put.ID, del.Method, del.ID = "GET", "getLamp", "PUT", "setLamp", "DELETE", "removeLamp"
	type in struct{ Body lamp }
	w := start(t, func(c *Config) {
		c.Routes = append(c.Routes,
			route.Action(get, func(context.Context, authz.Caller, *struct{}) (*lamp, error) { return now, nil }),
			route.Action(put, func(ctx context.Context, _ authz.Caller, in *in) (*lamp, error) {
				if err := route.Match(ctx, now); err != nil {
					return nil, err
				}
				now = &in.Body
				return now, nil
			}),
			route.Action(del, func(ctx context.Context, _ authz.Caller, _ *struct{}) (struct{}, error) {
				err := route.Match(ctx, now)
				if err == nil {
					now = nil
				}
				return struct{}{}, err
			}))
	})
	call := func(status int, method, body, name, value string) *http.Response {
		t.Helper()
		res, got := w.call(t, method, "/api/v1/lamp", body, header(name, value))
		if res.StatusCode != status {
			t.Fatalf("%s %s: %s: %d %s, want %d", method, name, value, res.StatusCode, got, status)
		}
		return res
	}
	none := call(200, "GET", "", "X-None", "").Header.Get("ETag")
	call(304, "GET", "", "If-None-Match", none)
	call(412, "PUT", `{"color":"red"}`, "If-Match", `"other"`)
	red := call(200, "PUT", `{"color":"red"}`, "If-Match", none).Header.Get("ETag")
	call(412, "PUT", `{"color":"red"}`, "If-Match", none)
	call(304, "GET", "", "If-None-Match", "W/"+red)
	now.Heat = 100
	call(200, "GET", "", "If-None-Match", red)
	hot := call(200, "PUT", `{"color":"blue","heat":100}`, "If-Match", red).Header.Get("ETag")
	call(412, "DELETE", "", "If-Match", red)
	call(304, "GET", "", "If-None-Match", hot)
	if tag := call(200, "DELETE", "", "If-Match", "*").Header.Get("ETag"); tag != "" {
		t.Errorf("a deletion has the ETag %q", tag)
	}
	call(200, "PUT", `{"color":"green"}`, "If-None-Match", hot) // says nothing of a write
}
