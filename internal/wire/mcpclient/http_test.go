package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/wire/outbound"
)

// served is a target whose server is a handler.
func served(t *testing.T, h http.Handler) *mcp.Target {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &mcp.Target{TenantID: "t", ServerID: "s", Name: "Weather", Fingerprint: server.URL, Transport: mcp.HTTP, URL: server.URL + "/mcp"}
}

func streamable(t *testing.T, s *sdk.Server) http.Handler {
	t.Helper()
	t.Cleanup(func() { // of clients that left without a word
		for session := range s.Sessions() {
			session.Close()
		}
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
}

func names(l *mcp.Listing) (all []string) {
	for _, t := range l.Tools {
		all = append(all, t.Name)
	}
	return all
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	m, target := manager(t), served(t, streamable(t, newServer()))
	l, err := m.List(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(l); !slices.Contains(got, "echo") {
		t.Errorf("tools = %v", got)
	}
	if res := call(t, m, target, "echo", `{"message":"hello"}`); res.Output != "you said hello" || res.Failed {
		t.Errorf("echo = %+v", res)
	}
	if again, err := m.List(t.Context(), target); err != nil || again != l {
		t.Errorf("a list that was asked for just now is asked for again: %v", err)
	}
}

// What is not text becomes files, with a line that says so.
func TestResults(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.AddTool(&sdk.Tool{Name: "all", InputSchema: jsontext.Value(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "first\x00"},
			&sdk.ImageContent{MIMEType: "image/png", Data: []byte("png")},
			&sdk.AudioContent{MIMEType: "nonsense;;", Data: []byte("wav")},
			&sdk.ResourceLink{URI: "https://example.com/a", Name: "A"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///notes.txt", Text: "note"}},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///x/map.pdf", MIMEType: "application/pdf", Blob: []byte("pdf")}},
		}}, nil
	})
	s.AddTool(&sdk.Tool{Name: "structured", InputSchema: jsontext.Value(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: map[string]any{"degrees": 21}}, nil
	})
	s.AddResource(&sdk.Resource{URI: "file:///readme", Name: "readme"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "file:///readme", Text: "read me"}}}, nil
	})
	m, target := manager(t), served(t, streamable(t, s))
	res := call(t, m, target, "all", `{}`)
	for _, part := range []string{"first\uFFFD", "image-1.png, image/png, 3 bytes", "audio-2, application/octet-stream", "[link: https://example.com/a, A]", "note", "map.pdf"} {
		if !strings.Contains(res.Output, part) {
			t.Errorf("the output has no %q: %q", part, res.Output)
		}
	}
	if len(res.Files) != 3 || string(res.Files[0].Data) != "png" || res.Files[2].Name != "map.pdf" {
		t.Errorf("files = %+v", res.Files)
	}
	if res := call(t, m, target, "structured", `{}`); res.Output != `{"degrees":21}` {
		t.Errorf("structured = %+v", res)
	}
	if res, err := m.Read(t.Context(), target, "file:///readme"); err != nil || !strings.Contains(res.Output, "read me") {
		t.Errorf("resource = %+v, %v", res, err)
	}
	if res, err := m.Read(t.Context(), target, "file:///nothing"); err != nil || !res.Failed {
		t.Errorf("an unknown resource = %+v, %v", res, err)
	}
}

// A server that says that its tools changed is asked again.
func TestToolsThatChange(t *testing.T) {
	t.Parallel()
	s := newServer()
	m, target := manager(t), served(t, streamable(t, s))
	if _, err := m.List(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	s.AddTool(&sdk.Tool{Name: "new", InputSchema: jsontext.Value(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return textResult("new"), nil
	})
	s.RemoveTools("echo")
	gone(t, func() bool {
		l, err := m.List(t.Context(), target)
		return err == nil && slices.Contains(names(l), "new") && !slices.Contains(names(l), "echo")
	})
	if res := call(t, m, target, "echo", `{"message":"x"}`); !res.Failed {
		t.Errorf("a tool that is no more = %+v", res)
	}
}

// rpc answers the handshake by hand, and the rest as the test says.
func rpc(t *testing.T, answer func(w http.ResponseWriter, method, id string)) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, _ := io.ReadAll(r.Body)
		method := between(string(body), `"method":"`, `"`)
		id := strings.TrimRight(between(string(body), `"id":`, ","), "}")
		switch method {
		case "initialize":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, id)
		case "notifications/initialized", "notifications/cancelled":
			w.WriteHeader(http.StatusAccepted)
		default:
			answer(w, method, id)
		}
	})
}

func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	value, _, _ := strings.Cut(rest, after)
	return value
}

// Whatever a server answers with, the call ends, with a sentence.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	flood := func(w http.ResponseWriter) {
		chunk := []byte(strings.Repeat("x", 1<<20))
		for range 100 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, method, id string)
		says   string
	}{
		"json_of_100_MB": {func(w http.ResponseWriter, _, id string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, id)
			flood(w)
		}, "larger than a message may be"},
		"event_of_100_MB": {func(w http.ResponseWriter, _, _ string) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: ")
			flood(w)
		}, "cannot be used"},
		"a_page": {func(w http.ResponseWriter, _, _ string) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<html>")
		}, "unsupported content type"},
		"no_json": {func(w http.ResponseWriter, _, _ string) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{{{")
		}, "cannot be used"},
		"half_an_answer": {func(w http.ResponseWriter, _, _ string) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"jsonrpc"`)
		}, "cannot be used"},
		"an_empty_stream": {func(w http.ResponseWriter, _, _ string) { w.Header().Set("Content-Type", "text/event-stream") }, "cannot be used"},
		"an_error_page":   {func(w http.ResponseWriter, _, _ string) { w.WriteHeader(http.StatusBadGateway) }, "Bad Gateway"},
		"broken_off":      {func(http.ResponseWriter, string, string) { panic(http.ErrAbortHandler) }, "closed the connection"},
		"a_refusal": {func(w http.ResponseWriter, _, id string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"out of\n order"}}`, id)
		}, "out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, target := manager(t), served(t, rpc(t, c.answer))
			res, err := m.Call(t.Context(), target, "x", jsontext.Value(`{}`), mcp.CallKey{})
			says := res.Output
			if err != nil {
				says = fault.From(err).Detail
			}
			if err == nil && !res.Failed || !strings.Contains(says, c.says) || strings.Contains(says, "127.0.0.1") {
				t.Errorf("result %+v, error %v: want %q and no address", res, err, c.says)
			}
		})
	}
}

// A list without an end, or with tools that are none, does no harm.
func TestHostileLists(t *testing.T) {
	t.Parallel()
	answerJSON := func(w http.ResponseWriter, id, result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
	}
	m := manager(t)
	_, err := m.List(t.Context(), served(t, rpc(t, func(w http.ResponseWriter, _, id string) {
		answerJSON(w, id, `{"tools":[],"nextCursor":"again"}`)
	})))
	refused(t, err, codeUnreachable, "no end")

	l, err := m.List(t.Context(), served(t, rpc(t, func(w http.ResponseWriter, _, id string) {
		answerJSON(w, id, `{"tools":[{"name":"good","inputSchema":{"properties":{}}},{"name":"good","inputSchema":{"type":"object"}},
			{"name":"","inputSchema":{"type":"object"}},{"name":"text","inputSchema":"object"},{"name":"list","inputSchema":[]},
			{"name":"none"},{"name":"`+strings.Repeat("x", 300)+`","inputSchema":{"type":"object"}},
			{"name":"huge","inputSchema":{"type":"object","description":"`+strings.Repeat("x", maxSchema)+`"}}]}`)
	})))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(l); !slices.Equal(got, []string{"good", "none"}) {
		t.Errorf("tools = %v", got)
	}
	if string(l.Tools[0].Schema) != `{"properties":{},"type":"object"}` {
		t.Errorf("schema = %s", l.Tools[0].Schema)
	}
}

// A redirect is no way into a private network, nor anywhere else.
func TestRedirects(t *testing.T) {
	t.Parallel()
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	defer inside.Close()
	m := manager(t)
	target := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inside.URL, http.StatusTemporaryRedirect)
	}))
	_, err := m.List(t.Context(), target)
	refused(t, err, codeUnreachable, "Temporary Redirect")
}

func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	guarded := outbound.New(outbound.Config{})
	t.Cleanup(guarded.Close)
	m := manager(t, func(c *Config) { c.Transport = guarded.Transport() })
	_, err := m.List(t.Context(), served(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") })))
	refused(t, err, "EGRESS_DENIED", "not a public one")
	_, err = NewOAuth(guarded.Transport()).Discover(t.Context(), "http://127.0.0.1:1/mcp")
	refused(t, err, "EGRESS_DENIED", "not a public one")
}

// A server that fails is left alone after a while, and others are not.
func TestServersThatFailAreLeftAlone(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	m := manager(t)
	target := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	for range tolerated {
		if _, err := m.List(t.Context(), target); err == nil {
			t.Fatal("a server that fails lists tools")
		}
	}
	before := asked.Load()
	_, err := m.List(t.Context(), target)
	refused(t, err, "SERVICE_UNAVAILABLE", "failed 3 times in a row")
	if asked.Load() != before {
		t.Error("it is asked all the same")
	}
	if _, err := m.List(t.Context(), served(t, streamable(t, newServer()))); err != nil {
		t.Errorf("another server: %v", err)
	}
}

// A server that has restarted does not know our session: the call is repeated
// in a new one.
func TestServerThatForgets(t *testing.T) {
	t.Parallel()
	var current atomic.Pointer[http.Handler]
	fresh := func() {
		h := streamable(t, newServer())
		current.Store(&h)
	}
	fresh()
	m := manager(t)
	target := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*current.Load()).ServeHTTP(w, r) }))
	call(t, m, target, "echo", `{"message":"x"}`)
	fresh()
	if res := call(t, m, target, "echo", `{"message":"y"}`); res.Output != "you said y" {
		t.Errorf("result = %+v", res)
	}
}

// A server that accepts requests and says nothing, and one that holds up the
// stream of notifications.
func TestServersThatHang(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	m := manager(t, func(c *Config) { c.ConnectTimeout, c.StreamTimeout = 300*time.Millisecond, 100*time.Millisecond })
	_, err := m.List(t.Context(), served(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})))
	refused(t, err, codeTimeout, "300ms")

	inner := streamable(t, newServer())
	target := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			select {
			case <-r.Context().Done():
			case <-over:
			}
			return
		}
		inner.ServeHTTP(w, r)
	}))
	if _, err := m.List(t.Context(), target); err != nil {
		t.Errorf("a server without a stream of notifications: %v", err)
	}
}

// rotating are tokens of which only the newest counts.
type rotating struct {
	mu     sync.Mutex
	number int
}

func (r *rotating) Token(_ context.Context, rejected string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rejected == fmt.Sprint("token-", r.number) {
		r.number++
	}
	if r.number > 3 {
		return "", mcp.ErrUnauthorized
	}
	return fmt.Sprint("token-", r.number), nil
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	inner := streamable(t, newServer())
	var want atomic.Value
	want.Store("Token abc")
	guard := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != want.Load() && r.Header.Get("Authorization") != want.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
	m := manager(t)
	keyed := served(t, guard)
	keyed.Header, keyed.HeaderValue = "X-Key", secret.New("Token abc")
	call(t, m, keyed, "echo", `{"message":"x"}`)

	wrong := served(t, guard)
	wrong.Header, wrong.HeaderValue = "X-Key", secret.New("Token wrong")
	if _, err := m.List(t.Context(), wrong); !errors.Is(err, mcp.ErrUnauthorized) {
		t.Errorf("a wrong key: %v", err)
	}

	tokens := &rotating{}
	rotated := served(t, guard)
	rotated.Tokens = tokens
	want.Store("Bearer token-2")
	if _, err := m.List(t.Context(), rotated); !errors.Is(err, mcp.ErrUnauthorized) {
		t.Errorf("the token after the first is as wrong: %v", err)
	}
	call(t, m, rotated, "echo", `{"message":"x"}`)
	want.Store("Bearer token-3")
	call(t, m, rotated, "echo", `{"message":"a refused call is made again with the next token"}`)
	want.Store("Bearer another")
	if _, err := m.Call(t.Context(), rotated, "echo", jsontext.Value(`{"message":"x"}`), mcp.CallKey{}); !errors.Is(err, mcp.ErrUnauthorized) {
		t.Errorf("no token counts any more: %v", err)
	}
}

// A call carries its key, by which the server recognizes it (rule D22-keys).
func TestCallsCarryTheirKey(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "keys", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "key"}, func(_ context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		text := fmt.Sprint(r.Params.Meta["agentd/idempotency_key"], " ", r.Params.Meta["agentd/run_id"])
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
	})
	m, target := manager(t), served(t, streamable(t, s))
	res, err := m.Call(t.Context(), target, "key", jsontext.Value(`{}`), mcp.CallKey{StepID: "s1", RunID: "r1"})
	if err != nil || res.Output != "s1 r1" {
		t.Errorf("the server got %q, %v", res.Output, err)
	}
}
