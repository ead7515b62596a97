package client

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/secret"
)

func newClient(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := New(srv.URL+"/", secret.New("k"))
	if err != nil {
		t.Fatal(err)
	}
	c.http.Transport = srv.Client().Transport
	return c
}

func TestRunIsReadWhateverItsShape(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, message, text string }{
		{"whole", `{"run_id":"r","input":{"message":"hi"},"output":{"text":"yo","truncated":true},"error":null,"started_at":null,"new":1}`, "hi", "yo"},
		{"no output", `{"run_id":"r","input":{},"output":null}`, "", ""},
		{"other shapes", `{"run_id":"r","input":{"message":{"a":1}},"output":"yo"}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/v1/runs/r 1" {
					t.Errorf("path %s", r.URL.Path)
				}
				fmt.Fprint(w, tt.body)
			})
			run, err := Get[Run](t.Context(), c, Path(RunsPath, "r 1"))
			if err != nil {
				t.Fatal(err)
			}
			if run.Value.Message() != tt.message || run.Value.Text() != tt.text || !run.Value.StartedAt.IsZero() || string(run.Raw) != tt.body {
				t.Errorf("got %+v", run)
			}
		})
	}
}

func TestListsGoOverPages(t *testing.T) {
	t.Parallel()
	var asked []string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		if r.URL.Query().Get("cursor") == "" {
			fmt.Fprint(w, `{"items":[{"agent_id":"1"},{"agent_id":"2"}],"cursor":"c/2","has_more":true}`)
			return
		}
		fmt.Fprint(w, `{"items":[{"agent_id":"3"}],"cursor":null,"has_more":false}`)
	})
	var ids []string
	for a, err := range List[Agent](t.Context(), c, AgentsPath, nil, 0) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, a.Value.AgentID)
	}
	if diff := cmp.Diff([]string{"1", "2", "3"}, ids); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"limit=100", "cursor=c%2F2&limit=100"}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestListsOfEveryShape(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`{"items":[],"cursor":null,"has_more":false}`:                  0,
		`{"keys":[{"name":"a"},{"name":"b"}],"total":2}`:               2,
		`{"items":[{"name":"a"}],"users":[{"name":"a"},{"name":"b"}]}`: 1,
		`{"total":0}`:    0,
		`{"items":null}`: 0,
	} {
		var asked string
		c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.RawQuery
			fmt.Fprint(w, body)
		})
		n := 0
		for item, err := range List[struct{ Name string }](t.Context(), c, "/x", url.Values{"status": {"failed"}}, 7) {
			if err != nil || len(item.Raw) == 0 {
				t.Errorf("%s: %v", body, err)
			}
			n++
		}
		if n != want || asked != "limit=7&status=failed" {
			t.Errorf("%s has %d items, want %d; asked %s", body, n, want, asked)
		}
	}
}

func TestWritesAreJSONWithTheKey(t *testing.T) {
	t.Parallel()
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Authorization") != "Bearer k" || r.ContentLength <= 0 {
			t.Errorf("headers %v", r.Header)
		}
		if got, want := string(body), `{"agent_id":"a","input":{"message":"hi"}}`; got != want {
			t.Errorf("body %s", got)
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"run_id":"r"}`)
	})
	var run Doc[Run]
	err := c.Do(t.Context(), "POST", RunsPath, map[string]any{"agent_id": "a", "input": map[string]string{"message": "hi"}}, &run)
	if err != nil || run.Value.RunID != "r" {
		t.Errorf("%v, %v", run, err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{
			"a problem", refuse(404, `{"type":"about:blank","status":404,"detail":"There is no such run in this company.","code":"NOT_FOUND","correlation_id":"01"}`),
			"There is no such run in this company. (NOT_FOUND, request 01)",
		},
		{
			"wrong fields", refuse(422, `{"detail":"2 fields.","code":"VALIDATION_ERROR","errors":[{"field":"name","message":"is required"},{"field":"tools[0]","message":"is unknown"}]}`),
			"2 fields.\n  name: is required\n  tools[0]: is unknown\n  (VALIDATION_ERROR)",
		},
		{
			"one wrong field is in the sentence already", refuse(422, `{"detail":"name is required","code":"VALIDATION_ERROR","errors":[{"field":"name","message":"is required"}]}`),
			"name is required (VALIDATION_ERROR)",
		},
		{
			"a proxy's page", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Request-Id", "01")
				w.WriteHeader(502)
				fmt.Fprint(w, "<html>")
			}, "The server answered 502 Bad Gateway. (request 01)",
		},
		{"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, "The server answered 302 Found."},
		{"no agentd", refuse(200, "hello"), "is AGENTD_URL right?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Get[Run](t.Context(), newClient(t, tt.answer), Path(RunsPath, "r"))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(nil)
	srv.Close()
	c, err := New(srv.URL, secret.String{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Get[Run](t.Context(), c, Path(RunsPath, "r"))
	if err == nil || !strings.HasPrefix(err.Error(), "no answer from "+srv.URL+": dial tcp") {
		t.Errorf("got %v", err)
	}
}

func TestNewRefusesAddresses(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "localhost:8080", "ftp://h", "http://", "::"} {
		if _, err := New(base, secret.String{}); err == nil {
			t.Errorf("%q was accepted", base)
		}
	}
}

// Every request after the first names the company of the first answer, so that a
// key that was replaced meanwhile cannot act in another one.
func TestRequestsNameTheirCompany(t *testing.T) {
	t.Parallel()
	var named []string
	answer := func(w http.ResponseWriter, r *http.Request) {
		named = append(named, strings.Join(r.Header["X-Tenant-Id"], ","))
		w.Header().Set("X-Tenant-Id", "first")
		fmt.Fprint(w, `{"run_id":"r"}`)
	}
	learns, chosen := newClient(t, answer), newClient(t, answer)
	InTenant("")(learns)
	InTenant("chosen")(chosen)
	for _, c := range []*Client{learns, learns, chosen, chosen} {
		if _, err := Get[Run](t.Context(), c, Path(RunsPath, "r")); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"", "first", "chosen", "chosen"}, named); diff != "" {
		t.Error(diff)
	}
}
