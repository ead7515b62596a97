package app_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"agentd/internal/agents/mcp/mcptest"
	"agentd/internal/app"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model/modeltest"
)

// stdioServer is the argument with which the test binary is an MCP server over
// standard streams.
const stdioServer = "serve-mcp"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == stdioServer {
		if err := mcptest.New().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m,
		// A lookup goes on for a while though nobody waits for it any more.
		goleak.IgnoreAnyFunction("net.(*Resolver).tryOneName"), goleak.IgnoreAnyFunction("net.(*Resolver).goLookupIPCNAMEOrder"),
		goleak.IgnoreAnyFunction("net.(*Resolver).lookupIPAddr.func2"), goleak.IgnoreAnyFunction("net.(*Resolver).lookupIPAddr"))
}

const ownerKey = "svc_ownerkey_0123456789abcdefghijklmnopqrstuv"

// node is a running agentd and a key to it.
type node struct {
	t   testing.TB
	app *app.App
	cfg config.Config
	url string
	key string
}

// start runs agentd on a free port with data of its own and a simulated model.
func start(t testing.TB, sim *modeltest.Server, adjust ...func(*config.Config)) *node {
	t.Helper()
	cfg := config.Config{}
	cfg.Server.Listen = "127.0.0.1:0"
	cfg.Server.RateLimits = "off" // tests ask more often than people do
	cfg.Storage.DataDir = t.TempDir()
	cfg.Security.OwnerKey = secret.New(ownerKey)
	if sim != nil {
		cfg.Models.BaseURL = sim.URL
		cfg.Models.APIKey = secret.New("operator-key")
		cfg.Models.Model = "sim-model"
	}
	for _, f := range adjust {
		f(&cfg)
	}
	return restart(t, cfg)
}

// restart runs agentd again with what an earlier one left.
func restart(t testing.TB, cfg config.Config) *node {
	t.Helper()
	level := slog.LevelError
	if os.Getenv("AGENTD_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	a, err := app.Start(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level})))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, app: a, cfg: cfg, url: "http://" + a.Address(), key: ownerKey}
	t.Cleanup(n.stop)
	return n
}

func (n *node) stop() { n.app.Stop(context.Background()) }

// roaming has every request of the tests come from an address of its own, so
// that none is limited that others may make only so often.
func roaming(c *config.Config) { c.Server.TrustedProxies = "127.0.0.1" }

var addresses atomic.Uint32

// from gives the header that says where a request comes from.
func (n *node) from(req *http.Request) {
	if n.cfg.Server.TrustedProxies != "" && req.Header.Get("X-Forwarded-For") == "" {
		a := addresses.Add(1)
		req.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", a>>16&255, a>>8&255, a&255))
	}
}

// as is the same node with another key.
func (n *node) as(key string) *node {
	other := *n
	other.key = key
	return &other
}

type object = map[string]any

// reply is an answer with its body read.
type reply struct {
	*http.Response
	raw  []byte
	json object
}

// value is the answer's JSON, where it may be null.
func (r reply) value() any {
	if string(r.raw) == "null" {
		return nil
	}
	return r.json
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// do sends a request; body may be nil, a string that is sent as it is, or
// anything that becomes JSON.
func (n *node) do(method, path string, body any, headers ...string) reply {
	n.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		enc, err := json.Marshal(b, json.Deterministic(true)) // so that what is sent again is the same
		if err != nil {
			n.t.Fatal(err)
		}
		r = bytes.NewReader(enc)
	}
	req, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, r)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	n.from(req)
	resp, err := client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	out := reply{Response: resp}
	if out.raw, err = readBody(resp); err != nil {
		n.t.Fatal(err)
	}
	_ = json.Unmarshal(out.raw, &out.json) // streams and empty bodies are no JSON
	return out
}

// readBody reads an answer; of a stream that has no end, what comes up to its
// frame "ready".
func readBody(resp *http.Response) (all []byte, err error) {
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		return io.ReadAll(resp.Body)
	}
	lines, ready := bufio.NewReader(resp.Body), false
	for {
		line, err := lines.ReadBytes('\n')
		all = append(all, line...)
		switch {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return all, err
		case string(line) == "event: ready\n":
			ready = true
		case ready && string(line) == "\n":
			return all, nil
		}
	}
}

// want is do that must answer with a status.
func (n *node) want(status int, method, path string, body any, headers ...string) object {
	n.t.Helper()
	r := n.do(method, path, body, headers...)
	if r.StatusCode != status {
		n.t.Fatalf("%s %s: %d, want %d: %s", method, path, r.StatusCode, status, r.raw)
	}
	return r.json
}

// agent makes an agent and gives its id.
func (n *node) agent(fields object) string {
	n.t.Helper()
	if fields == nil {
		fields = object{}
	}
	if fields["name"] == nil {
		fields["name"] = "tester"
	}
	return n.want(201, "POST", "/api/v1/agents", fields)["agent_id"].(string)
}

// run starts a run and gives its id.
func (n *node) run(agent, message string, fields object) string {
	n.t.Helper()
	body := object{"agent_id": agent, "input": object{"message": message}}
	maps.Copy(body, fields)
	return n.want(202, "POST", "/api/v1/runs", body)["run_id"].(string)
}

// ended waits for a run's end and gives the run.
func (n *node) ended(id string) object {
	n.t.Helper()
	return n.want(200, "GET", "/api/v1/runs/"+id+"/wait?timeout_sec=60", nil)
}

// waiting waits for a run to be in a state that is no end.
func (n *node) waiting(id, status string) (r object) {
	n.t.Helper()
	eventually(n.t, func() bool {
		r = n.want(200, "GET", "/api/v1/runs/"+id, nil)
		return r["status"] == status
	})
	return r
}

// frame is a server-sent event.
type frame struct {
	id, name, data string
}

func (f frame) String() string { return f.id + " " + f.name }

func (f frame) object(t testing.TB) object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(f.data), &o); err != nil {
		t.Fatalf("%s: %v: %s", f, err, f.data)
	}
	return o
}

// stream reads an event stream until it ends, or until enough says so.
func (n *node) stream(path, lastID string, enough func(frame) bool) []frame {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", n.url+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.key)
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		n.t.Fatalf("%s: %s, %s", path, resp.Status, resp.Header.Get("Content-Type"))
	}
	var all []frame
	err = readFrames(resp.Body, func(f frame) bool {
		all = append(all, f)
		return enough == nil || !enough(f)
	})
	if err != nil {
		n.t.Fatalf("%s after %v: %v", path, all, err)
	}
	return all
}

func readFrames(r io.Reader, each func(frame) bool) error {
	var f frame
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		field, value, _ := strings.Cut(in.Text(), ": ")
		switch {
		case in.Text() == "":
			if f.data != "" && !each(f) {
				return nil
			}
			f = frame{}
		case field == "id":
			f.id = value
		case field == "event":
			f.name = value
		case field == "data":
			f.data += value
		case field == "retry" || field == "":
		default:
			return fmt.Errorf("a line that is no field: %q", in.Text())
		}
	}
	return in.Err()
}

// names gives the names of frames, runs of equal ones as one.
func names(frames []frame) (out []string) {
	for _, f := range frames {
		name := f.name
		if name == "" {
			name = f.data
		}
		if len(out) == 0 || out[len(out)-1] != name {
			out = append(out, name)
		}
	}
	return out
}

// said joins the text of a stream's chunks.
func said(t testing.TB, frames []frame) string {
	t.Helper()
	var b strings.Builder
	for _, f := range frames {
		if f.name == "llm.chunk" {
			b.WriteString(f.object(t)["text"].(string))
		}
	}
	return b.String()
}

// eventually waits for what happens without anybody being told.
func eventually(t testing.TB, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
	}
}

// send makes a request with exactly these headers: no key unless one is
// given, and a name may come twice.
func (n *node) send(method, target, body string, headers ...string) reply {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), method, n.url+target, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	n.from(req)
	resp, err := client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	out := reply{Response: resp}
	if out.raw, err = io.ReadAll(resp.Body); err != nil {
		n.t.Fatal(err)
	}
	_ = json.Unmarshal(out.raw, &out.json)
	return out
}

// bytes sends a request as it stands and reads the answer.
func (n *node) bytes(method, request string) reply {
	n.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		n.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method, URL: &url.URL{Path: "/"}})
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	out := reply{Response: resp}
	if out.raw, err = io.ReadAll(resp.Body); err != nil {
		n.t.Fatal(err)
	}
	_ = json.Unmarshal(out.raw, &out.json)
	return out
}
