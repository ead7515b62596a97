package a2aclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"go.uber.org/goleak"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/teams/a2a"
	"agentd/internal/wire/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is an agent of the SDK's server, which works for a moment before it answers.
type echo struct{}

func (echo) Execute(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		said := x.Message.Parts[0].Text()
		if said == "message" {
			yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("plain")), nil)
			return
		}
		if !yield(sdk.NewSubmittedTask(x, x.Message), nil) {
			return
		}
		if said == "ask" {
			yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateInputRequired, sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("Which?"))), nil)
			return
		}
		if yield(sdk.NewArtifactEvent(x, sdk.NewTextPart("echo "+said)), nil) {
			yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCompleted, nil), nil)
		}
	}
}

func (echo) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(func(sdk.Event, error) bool) {}
}

// serve starts a peer whose messages a handler gets; its card says a version.
func serve(t *testing.T, version string, rpc http.Handler) (url string, c Client) {
	t.Helper()
	mux := http.NewServeMux()
	there := httptest.NewServer(mux)
	t.Cleanup(there.Close)
	mux.Handle("POST /rpc", rpc)
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"name":"peer","url":"%[1]s/rpc","preferredTransport":"JSONRPC","protocolVersion":"0.3","supportedInterfaces":[
			{"url":"%[1]s/rpc","protocolBinding":"JSONRPC","protocolVersion":"%[2]s"}]}`, there.URL, version)
	})
	allow, err := outbound.ParseAllow(there.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	guarded := outbound.New(outbound.Config{Allow: allow})
	t.Cleanup(guarded.Close)
	return there.URL, Client{Guarded: guarded, Poll: time.Millisecond}
}

// The SDK's server answers in both versions of the protocol: with a message, with a task,
// and with a question.
func TestPeers(t *testing.T) {
	t.Parallel()
	for version, handler := range map[string]func() http.Handler{
		"1.0": func() http.Handler { return a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(echo{})) },
		"0.3": func() http.Handler { return a2av0.NewJSONRPCHandler(a2asrv.NewHandler(echo{})) },
	} {
		url, c := serve(t, version, handler())
		for said, want := range map[string]a2a.Reply{
			"message": {State: "completed", Text: "plain"}, "hello": {State: "completed", Text: "echo hello"}, "ask": {State: "input-required", Text: "Which?"},
		} {
			got, err := c.Send(t.Context(), a2a.Outgoing{Target: a2a.Target{TenantID: "t", URL: url}, Text: said})
			if err != nil || got.State != want.State || got.Text != want.Text || said != "message" && (got.TaskID == "" || got.ContextID == "") {
				t.Errorf("%s, %s: %+v, %v", version, said, got, err)
			}
		}
	}
}

// Peers that hang, answer for other tasks, send garbage or more than is read fail in time,
// with a sentence for the model.
func TestHostilePeers(t *testing.T) {
	t.Parallel()
	answer := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body))
		}
	}
	task := func(id, state string) string {
		return `{"task":{"id":"` + id + `","contextId":"c","status":{"state":"` + state + `"}}}`
	}
	calls := 0
	for name, p := range map[string]struct {
		rpc  http.HandlerFunc
		want fault.Kind
		asks string // task that is asked for
	}{
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then is it seen that the client left
			<-r.Context().Done()
		}, fault.UpstreamTimeout, ""},
		"never ends":   {answer(`{"jsonrpc":"2.0","id":"1","result":` + task("a", "TASK_STATE_WORKING") + `}`), fault.Upstream, ""},
		"garbage":      {answer("\x00\xff{"), fault.Upstream, ""},
		"nothing":      {answer(""), fault.Upstream, ""},
		"no result":    {answer(`{"jsonrpc":"2.0","id":"1"}`), fault.Upstream, ""},
		"refusal":      {answer(`{"jsonrpc":"2.0","id":"1","error":{"code":-32001,"message":"no"}}`), fault.Upstream, ""},
		"too large":    {answer(strings.Repeat(" ", 3*maxBytes)), fault.Upstream, ""},
		"another task": {answer(`{"jsonrpc":"2.0","id":"1","result":` + task("b", "TASK_STATE_COMPLETED") + `}`), fault.Upstream, "a"},
		"long id":      {answer(`{"jsonrpc":"2.0","id":"1","result":` + task(strings.Repeat("x", 400), "TASK_STATE_COMPLETED") + `}`), fault.Upstream, ""},
		"redirect": {func(w http.ResponseWriter, _ *http.Request) {
			http.Redirect(w, &http.Request{}, "http://10.0.0.1/", http.StatusTemporaryRedirect)
		}, fault.Upstream, ""},
		"lies later": {func(w http.ResponseWriter, r *http.Request) {
			if calls++; calls == 1 {
				answer(`{"jsonrpc":"2.0","id":"1","result":`+task("a", "TASK_STATE_WORKING")+`}`)(w, r)
				return
			}
			answer(`{"jsonrpc":"2.0","id":"1","result":{"id":"z","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}`)(w, r)
		}, fault.Upstream, ""},
	} {
		url, c := serve(t, "1.0", p.rpc)
		patience := time.Minute
		if p.want == fault.UpstreamTimeout || name == "never ends" {
			patience = 200 * time.Millisecond
		}
		ctx, stop := context.WithTimeout(t.Context(), patience)
		got, err := c.Send(ctx, a2a.Outgoing{Target: a2a.Target{TenantID: "t", URL: url}, Text: "hi", TaskID: p.asks})
		stop()
		if f := fault.From(err); err == nil || f.Kind != p.want || f.Detail == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Nothing inside is reached, and what is no card is refused.
func TestCards(t *testing.T) {
	t.Parallel()
	url, c := serve(t, "9.9", http.NotFoundHandler())
	for address, want := range map[string]fault.Kind{
		"http://10.0.0.1": fault.Forbidden, "ftp://x": fault.Invalid, url + "/nothing": fault.Upstream, url: fault.Upstream, url + "/x.json": fault.Upstream,
	} {
		if _, err := c.Send(t.Context(), a2a.Outgoing{Target: a2a.Target{TenantID: "t", URL: address}, Text: "hi"}); !fault.Is(err, want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A credential goes to the origin that it is for, and to no other one that a card names;
// a message that was started is found by its id, asked for and cancelled.
func TestCredentialsAndTasks(t *testing.T) {
	t.Parallel()
	for version, handler := range map[string]func() http.Handler{
		"1.0": func() http.Handler { return a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(echo{})) },
		"0.3": func() http.Handler { return a2av0.NewJSONRPCHandler(a2asrv.NewHandler(echo{})) },
	} {
		var got []string
		rpc := handler()
		url, c := serve(t, version, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.Header.Get("X-Key"))
			rpc.ServeHTTP(w, r)
		}))
		to := a2a.Target{TenantID: "t", URL: url, Auth: &a2a.Authorization{Origin: mcp.Origin(url), Header: "X-Key", Value: secret.New("k")}}
		p, err := c.Connect(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		const id = "0195f0a0-0000-7000-8000-000000000001"
		r, err := p.Start(t.Context(), id, "hello")
		for err == nil && r.State != "completed" {
			r, err = p.Get(t.Context(), r.TaskID)
		}
		if err != nil || r.Text != "echo hello" {
			t.Errorf("%s: %+v, %v", version, r, err)
		}
		if again, err := p.Find(t.Context(), id); version == "1.0" && (err == nil && again != nil && again.TaskID != r.TaskID) || version == "0.3" && !errors.Is(err, a2a.ErrUnlisted) {
			t.Errorf("%s: %+v, %v", version, again, err)
		}
		if _, err := p.Get(t.Context(), "nothing"); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", version, err)
		}
		if err := p.Cancel(t.Context(), r.TaskID); !errors.Is(err, a2a.ErrRefused) {
			t.Errorf("%s: the end of a task that is over: %v", version, err)
		}
		if len(got) == 0 || slices.ContainsFunc(got, func(key string) bool { return key != "k" }) {
			t.Errorf("%s: it was sent %q", version, got)
		}
		got, to.Auth.Origin = nil, "https://other.example.com:443"
		if p, err = c.Connect(t.Context(), to); err == nil {
			_, err = p.Start(t.Context(), "0195f0a0-0000-7000-8000-000000000002", "message")
		}
		if err != nil || !slices.Equal(got, []string{""}) {
			t.Errorf("%s: to another origin: %q, %v", version, got, err)
		}
	}
}
