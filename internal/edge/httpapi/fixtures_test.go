package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	toyID     = "0198c0de-0000-7000-8000-000000000001"
	ownerKey  = "svc_owner000_00000000000000000000000000000000"
	readerKey = "svc_reader00_00000000000000000000000000000000"

	browser    = "svs_browser00000_00000000000000000000000000000000"
	oldBrowser = "svs_browser00000_0000000000000000000000000000000r"
	halfOpen   = "svs_halfopen0000_00000000000000000000000000000000"
	streamKey  = "svt_stream"
)

// keys is an Authenticator whose keys can be revoked.
type keys struct {
	mu     sync.Mutex
	known  map[string]authz.Caller
	down   bool
	checks int // of open streams
}

func newKeys() *keys {
	return &keys{known: map[string]authz.Caller{
		ownerKey:   {TenantID: "t1", UserID: "u1", KeyID: "k1", Role: authz.Owner, Scopes: []authz.Scope{"*"}, Method: "api_key"},
		readerKey:  {TenantID: "t1", UserID: "u2", KeyID: "k2", Role: authz.Viewer, Scopes: []authz.Scope{"agents:read"}, Method: "api_key"},
		browser:    {TenantID: "t1", UserID: "u1", SessionID: "s1", Role: authz.Owner, Scopes: []authz.Scope{"*"}, Method: "cookie"},
		oldBrowser: {TenantID: "t1", UserID: "u1", SessionID: "s2", Role: authz.Owner, Scopes: []authz.Scope{"*"}, Method: "cookie"},
		halfOpen: {
			TenantID:  "t1",
			UserID:    "u1",
			SessionID: "s3",
			Role:      authz.Owner,
			Scopes:    []authz.Scope{"*"},
			Method:    "cookie",
			HalfOpen:  true,
		},
		streamKey: {
			TenantID:   "t1",
			UserID:     "u1",
			KeyID:      "k1",
			Role:       authz.Owner,
			Scopes:     []authz.Scope{"agents:read"},
			Method:     "api_key",
			StreamOnly: true,
		},
	}}
}

func (k *keys) Authenticate(_ context.Context, raw string) (authz.Caller, error) {
	if strings.HasPrefix(raw, "svs_") {
		return authz.Caller{}, fault.New(fault.Unauthenticated, "", "no key")
	}
	return k.find(raw)
}

func (k *keys) find(raw string) (authz.Caller, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down {
		return authz.Caller{}, fault.New(fault.Unavailable, "", "The database does not answer; retry.")
	}
	who, ok := k.known[raw]
	if !ok {
		return who, fault.New(fault.Unauthenticated, "", "no such key")
	}
	return who, nil
}

// AuthenticateSession knows sessions like keys; one whose token ends in an
// "r" is due for a new cookie.
func (k *keys) AuthenticateSession(_ context.Context, token string) (authz.Caller, time.Duration, error) {
	if !strings.HasPrefix(token, "svs_") {
		return authz.Caller{}, 0, fault.New(fault.Unauthenticated, "", "no session")
	}
	who, err := k.find(token)
	if err == nil && strings.HasSuffix(token, "r") {
		return who, 90 * 24 * time.Hour, nil
	}
	return who, 0, err
}

func (k *keys) Valid(_ context.Context, who authz.Caller) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.checks++
	if k.down {
		return fault.New(fault.Unavailable, "", "The database does not answer; retry.")
	}
	for _, known := range k.known {
		if known.KeyID == who.KeyID && known.SessionID == who.SessionID && !known.StreamOnly {
			return nil
		}
	}
	return fault.New(fault.Unauthenticated, "", "no such key")
}

func (k *keys) revoke(raw string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, raw)
}

type toySpec struct {
	Name string   `json:"name" required:"true" minLength:"1"`
	Kind string   `json:"kind" enum:"car,doll" default:"car"`
	Tags []string `json:"tags"`
}

type toy struct {
	ToyID string   `json:"toy_id"`
	Name  string   `json:"name"`
	Kind  string   `json:"kind"`
	Tags  []string `json:"tags"`
}

type (
	toyIn struct {
		ToyID string `path:"toyId"`
	}
	createIn struct{ Body toySpec }
	rawIn    struct{ Body jsontext.Value }
	patchIn  struct {
		ToyID string `path:"toyId"`
		Match string `header:"If-Match"`
		Body  toySpec
	}
	windIn struct {
		ToyID string `path:"toyId"`
		Body  *struct {
			Turns int `json:"turns" minimum:"1"`
		}
	}
	listIn struct {
		Limit string   `query:"limit"`
		Order string   `query:"order" enum:"asc,desc" default:"desc"`
		Days  int      `query:"days" minimum:"1" maximum:"90"`
		Deep  bool     `query:"deep"`
		Types []string `query:"type" enum:"car,doll"`
		After string   `header:"Last-Event-ID" query:"last_event_id"`
	}
	nameIn struct {
		Name string `path:"nameId" format:"any"`
	}
	pageIn struct {
		Page int `path:"page"`
	}
	nilIn struct{}
)

var read, write = []authz.Scope{"agents:read"}, []authz.Scope{"agents:write"}

// toys is a slice with one operation for every rule. Its stream plays what
// comes out of frames.
func toys(frames chan route.Frame) []route.Route {
	show := func(_ context.Context, _ authz.Caller, in *toyIn) (*toy, error) {
		return &toy{ToyID: in.ToyID, Name: "<b>&", Kind: "car"}, nil
	}
	echo := func(_ context.Context, _ authz.Caller, in *listIn) (*listIn, error) { return in, nil }
	return []route.Route{
		route.Action(route.Row{Method: "GET", Path: "/api/v1/toys/{toyId}", ID: "getToy", Tag: "Toys", Scopes: read}, show),
		route.Action(route.Row{Method: "GET", Path: "/api/v1/toys", ID: "listToys", Tag: "Toys", Scopes: read}, echo),
		route.Action(route.Row{Method: "POST", Path: "/api/v1/toys", ID: "createToy", Tag: "Toys", Scopes: write, Status: 201},
			func(_ context.Context, _ authz.Caller, in *createIn) (*toy, error) {
				return &toy{ToyID: toyID, Name: in.Body.Name, Kind: in.Body.Kind, Tags: in.Body.Tags}, nil
			}),
		route.Action(route.Row{Method: "PUT", Path: "/api/v1/toys/{toyId}/raw", Scopes: write, ID: "rawToy"},
			func(_ context.Context, _ authz.Caller, in *struct {
				ToyID string `path:"toyId"`
				Body  jsontext.Value
			}) (*route.Reply, error) {
				return &route.Reply{JSON: in.Body, ETag: "7"}, nil
			}),
		route.Action(route.Row{Method: "PATCH", Path: "/api/v1/toys/{toyId}", ID: "patchToy", Scopes: write, Partial: true},
			func(_ context.Context, _ authz.Caller, in *patchIn) (*toy, error) {
				return &toy{ToyID: in.ToyID, Name: in.Body.Name, Kind: in.Match}, nil
			}),
		route.Action(route.Row{Method: "DELETE", Path: "/api/v1/toys/{toyId}", ID: "deleteToy", Scopes: write, Status: 204},
			func(context.Context, authz.Caller, *toyIn) (struct{}, error) { return struct{}{}, nil }),
		route.Action(route.Row{Method: "POST", Path: "/api/v1/toys/{toyId}/wind", ID: "windToy", Scopes: write, Optional: true},
			func(_ context.Context, _ authz.Caller, in *windIn) (map[string]int, error) {
				if in.Body == nil {
					return map[string]int{"turns": 0}, nil
				}
				return map[string]int{"turns": in.Body.Turns}, nil
			}),
		route.Action(route.Row{Method: "POST", Path: "/api/v1/toys/{toyId}/stop", ID: "stopToy", Scopes: write},
			func(context.Context, authz.Caller, *toyIn) (map[string]bool, error) {
				return map[string]bool{"stopped": true}, nil
			}),
		route.Action(route.Row{Method: "GET", Path: "/api/v1/names/{nameId}", ID: "getName"},
			func(_ context.Context, _ authz.Caller, in *nameIn) (map[string]string, error) {
				return map[string]string{"name": in.Name}, nil
			}),
		route.Action(route.Row{Method: "GET", Path: "/api/v1/pages/{page}", ID: "getPage"},
			func(_ context.Context, _ authz.Caller, in *pageIn) (int, error) { return in.Page, nil }),
		route.Action(route.Row{Method: "GET", Path: "/api/v1/panic", ID: "panic"},
			func(context.Context, authz.Caller, *nilIn) (int, error) { panic("a private reason") }),
		route.Action(route.Row{Method: "GET", Path: "/api/v1/broken", ID: "broken"},
			func(context.Context, authz.Caller, *nilIn) (int, error) {
				return 0, errors.New("SELECT secret FROM table")
			}),
		route.Action(route.Row{Method: "GET", Path: "/api/v1/limited", ID: "limited"},
			func(context.Context, authz.Caller, *nilIn) (int, error) {
				e := fault.New(fault.Limited, "quota_exceeded", "The quota is used up.")
				e.RetryAfter = 1500 * time.Millisecond
				e.Extra = map[string]any{"quota": map[string]any{"kind": "runs"}, "status": 1}
				return 0, e
			}),
		route.Action(route.Row{Method: "GET", Path: "/api/v1/waits", ID: "waits"},
			func(ctx context.Context, _ authz.Caller, _ *nilIn) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}),
		route.Action(route.Row{Method: "GET", Path: "/api/v1/public", ID: "public", Public: true},
			func(context.Context, authz.Caller, *nilIn) (string, error) { return "hello", nil }),
		route.Action(route.Row{Method: "GET", Path: "/api/v1/admin", ID: "admin", Role: authz.Admin},
			func(_ context.Context, who authz.Caller, _ *nilIn) (string, error) { return who.Method, nil }),
		route.Action(
			route.Row{Method: "GET", Path: "/api/v1/old-toys/{oldId}", ID: "oldToy", Deprecated: "old-toys", Successor: "/api/v1/toys/{toyId}"},
			func(_ context.Context, _ authz.Caller, in *struct {
				ID string `path:"oldId"`
			}) (string, error) {
				return in.ID, nil
			},
		),
		route.Action(route.Row{Method: "POST", Path: "/api/v1/factor", ID: "factor", HalfOpen: true},
			func(_ context.Context, who authz.Caller, _ *nilIn) (string, error) { return who.SessionID, nil }),
		route.Stream(route.Row{Method: "GET", Path: "/api/v1/toys/{toyId}/events", ID: "streamToy", Scopes: read},
			func(ctx context.Context, _ authz.Caller, in *struct {
				ToyID string `path:"toyId"`
				After string `header:"Last-Event-ID" query:"last_event_id"`
			}) (iter.Seq2[route.Frame, error], error) {
				if in.After == "unknown" {
					return nil, fault.NewNotFound("toy")
				}
				return func(yield func(route.Frame, error) bool) {
					if in.After != "" && !yield(route.Frame{Name: "resumed", Data: []byte(in.After)}, nil) {
						return
					}
					for {
						select {
						case <-ctx.Done():
							return
						case f, ok := <-frames:
							if !ok || !yield(f, nil) {
								return
							}
						}
					}
				}, nil
			}),
	}
}

// raws are operations with their own wire format.
func raws() []Raw {
	envelope := func(w http.ResponseWriter, _ *http.Request, status int, e *fault.Error) {
		RefusalHeaders(w, status, e)
		_ = JSON(w, status, map[string]any{"error": map[string]string{"message": e.Detail, "code": e.Code}})
	}
	return []Raw{
		{
			Row:          route.Row{Method: "POST", Path: "/v1/messages", ID: "createMessage", Scopes: []authz.Scope{"runs:create"}},
			APIKeyHeader: true, Fail: envelope,
			Serve: func(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
				data, release, err := ReadBody(r)
				if err != nil {
					return err
				}
				defer release()
				return JSON(w, 200, map[string]any{"user": who.UserID, "bytes": len(data)})
			},
		},
		{
			Row: route.Row{Method: "POST", Path: "/v1/stream", ID: "createStream"}, Fail: envelope,
			Serve: func(_ http.ResponseWriter, r *http.Request, _ authz.Caller) error {
				st, err := OpenStream(r, StreamOptions{Heartbeat: []byte("event: ping\ndata: {}\n\n"), HeartbeatEvery: 20 * time.Millisecond})
				if err != nil {
					return err
				}
				defer st.Close()
				select {
				case <-st.Context().Done():
				case <-time.After(100 * time.Millisecond):
				}
				return st.Send(route.Frame{Data: []byte("[DONE]")})
			},
		},
		{
			Row:        route.Row{Method: "GET", Path: "/api/v1/files/{fileId}/content"},
			QueryToken: true,
			Serve: func(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
				_, err := io.WriteString(w, "file "+r.PathValue("fileId"))
				return err
			},
		},
		{
			Row:     route.Row{Method: "GET", Path: "/api/v1/socket"},
			Upgrade: true,
			Serve: func(w http.ResponseWriter, _ *http.Request, who authz.Caller) error {
				_, err := io.WriteString(w, "socket of "+who.UserID)
				return err
			},
		},
	}
}

// world is a running edge with its log.
type world struct {
	*httptest.Server
	edge   *Server
	keys   *keys
	frames chan route.Frame
	log    *lines
}

type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func start(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	w := &world{keys: newKeys(), frames: make(chan route.Frame), log: &lines{}}
	c := Config{
		Routes: toys(w.frames), Raw: raws(), Auth: w.keys,
		Log: slog.New(slog.NewJSONHandler(w.log, nil)),
	}
	for _, f := range change {
		f(&c)
	}
	edge, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w.edge = edge
	w.Server = httptest.NewUnstartedServer(edge)
	w.Server.Config = edge.http
	w.Server.Start()
	t.Cleanup(func() {
		w.CloseClientConnections()
		w.Close()
		w.Client().CloseIdleConnections()
	})
	return w
}

// call sends a request as the owner and gives the answer with its body read.
func (w *world) call(t testing.TB, method, path, body string, change ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	var sent io.Reader
	if body != "" {
		sent = bytes.NewReader([]byte(body))
	}
	req, err := http.NewRequestWithContext(t.Context(), method, w.URL+path, sent)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+ownerKey)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, f := range change {
		f(req)
	}
	res, err := w.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(got)
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if value == "" {
			r.Header.Del(name)
		} else {
			r.Header.Set(name, value)
		}
	}
}

// problemOf checks that an answer is a proper problem document.
func problemOf(t testing.TB, res *http.Response, body string) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	if doc["type"] != "about:blank" || doc["detail"] == "" || doc["code"] == "" || doc["status"] != float64(res.StatusCode) {
		t.Errorf("incomplete: %s", body)
	}
	id := res.Header.Get("X-Request-Id")
	if id == "" || doc["correlation_id"] != id || doc["correlationId"] != id {
		t.Errorf("correlation ids of %s do not match %q", body, id)
	}
	return doc
}
