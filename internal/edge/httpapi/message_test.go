package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

type (
	messageIn struct {
		Body route.Message
	}
	messageSeen struct {
		Bytes int    `json:"bytes"`
		Text  string `json:"text"` // its first bytes
		Type  string `json:"type"`
	}
)

const mostOfMessage = 100 << 10

func withMessages(c *Config) {
	c.BodyBudget = 200 << 10
	c.Routes = append(c.Routes, route.Action(
		route.Row{Method: "POST", Path: "/api/v1/inbox", ID: "send", Public: true, MaxBytes: mostOfMessage},
		func(_ context.Context, _ authz.Caller, in *messageIn) (messageSeen, error) {
			d := in.Body.Data
			return messageSeen{len(d), string(d[:min(len(d), 10)]), strings.Join(in.Body.Header["Content-Type"], ",")}, nil
		}))
}

// A message is whatever was sent, however it was, up to the row's limit.
func TestMessages(t *testing.T) {
	t.Parallel()
	w := start(t, withMessages)
	big := strings.Repeat("x", mostOfMessage)
	for name, c := range map[string]struct {
		kind, body string
		want       messageSeen
	}{
		"text":      {"text/plain", "hello", messageSeen{5, "hello", "text/plain"}},
		"no JSON":   {"application/json; charset=utf-16", `{"a":`, messageSeen{5, `{"a":`, "application/json; charset=utf-16"}},
		"form":      {"multipart/form-data", "x", messageSeen{1, "x", "multipart/form-data"}},
		"no type":   {"", "x", messageSeen{1, "x", ""}},
		"nothing":   {"", "", messageSeen{}},
		"the limit": {"text/plain", big, messageSeen{mostOfMessage, "xxxxxxxxxx", "text/plain"}},
	} {
		for _, chunked := range []bool{false, true} {
			res, body := w.call(t, "POST", "/api/v1/inbox", c.body, header("Content-Type", c.kind), func(r *http.Request) {
				if chunked && c.body != "" {
					r.ContentLength = -1
				}
			})
			var got messageSeen
			if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != 200 {
				t.Fatalf("%s: %d %.200s", name, res.StatusCode, body)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s, chunked %t (-want +got):\n%s", name, chunked, diff)
			}
		}
	}
}

func TestMessagesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := start(t, withMessages)
	for name, c := range map[string]struct {
		body    string
		length  int64 // that is said; -1: chunked
		packed  bool
		status  int
		code    string
		explain string
	}{
		"too long":          {strings.Repeat("x", mostOfMessage+1), mostOfMessage + 1, false, 413, "PAYLOAD_TOO_LARGE", "100 KiB"},
		"too long, chunked": {strings.Repeat("x", mostOfMessage+1), -1, false, 413, "PAYLOAD_TOO_LARGE", "100 KiB"},
		"packed":            {"x", 1, true, 415, "UNSUPPORTED_MEDIA_TYPE", "compressed"},
	} {
		res, body := w.call(t, "POST", "/api/v1/inbox", c.body, func(r *http.Request) {
			r.ContentLength = c.length
			if c.packed {
				r.Header.Set("Content-Encoding", "gzip")
			}
		})
		doc := problemOf(t, res, body)
		if detail, _ := doc["detail"].(string); res.StatusCode != c.status || doc["code"] != c.code || !strings.Contains(detail, c.explain) {
			t.Errorf("%s: %s", name, body)
		}
	}
	// What the big ones weighed is given back.
	if !w.edge.bodies.budget.TryAcquire(w.edge.bodies.size) {
		t.Error("a body that was read is still counted")
	}
}

func TestMessagesThatAreCutOff(t *testing.T) {
	t.Parallel()
	s := &Server{bodies: newBodies(1<<20, time.Second)}
	for name, length := range map[string]int64{"short": 100, "long": 80 << 10, "chunked": -1} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", "/", io.NopCloser(&failing{"abc"}))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		x := &exchange{Context: t.Context(), server: s, w: &nowhere{}}
		b := &binder{bodies: s.bodies, body: &bodyPlan{message: mostOfMessage}}
		var m route.Message
		if held, err := b.bindMessage(x, r, &m); !errors.Is(err, errCutOff) || held.weight != 0 || m.Data != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !s.bodies.budget.TryAcquire(s.bodies.size) {
			t.Fatalf("%s: what was cut off is still counted", name)
		}
		s.bodies.budget.Release(s.bodies.size)
	}
}

// failing is a body that breaks off.
type failing struct{ left string }

func (f *failing) Read(p []byte) (int, error) {
	n := copy(p, f.left)
	if f.left = f.left[n:]; n == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

// nowhere is a response that nobody reads.
type nowhere struct{ bytes.Buffer }

func (*nowhere) Header() http.Header { return http.Header{} }
func (*nowhere) WriteHeader(int)     {}

func TestMessagesArePublished(t *testing.T) {
	t.Parallel()
	var c Config
	withMessages(&c)
	text, err := OpenAPI(c.Routes, nil)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	body := at(t, doc, "paths", "/api/v1/inbox", "post", "requestBody")
	if at(t, body, "content", "*/*", "schema", "format") != "binary" || !strings.Contains(at(t, body, "description").(string), "100 KiB") {
		t.Errorf("%v", body)
	}
	at(t, doc, "paths", "/api/v1/inbox", "post", "responses", "413")
	defer func() {
		if recover() == nil {
			t.Error("a row that says no limit is mounted")
		}
	}()
	c.Routes[0].MaxBytes = 0
	planBody(c.Routes[0].Row, c.Routes[0].In.Field(0))
}
