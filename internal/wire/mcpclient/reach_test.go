package mcpclient

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/agents/mcp"
)

// A call waits for a server that cannot be reached, before its first session and
// after it; one that was sent and not answered is not made again (rule D22-tools).
func TestCallsWaitForTheirServer(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var cut atomic.Bool
	s := sdk.NewServer(&sdk.Implementation{Name: "pay", Version: "1"}, nil)
	var server *httptest.Server
	sdk.AddTool(s, &sdk.Tool{Name: "pay"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		calls.Add(1)
		if cut.Load() {
			server.CloseClientConnections()
		}
		return &sdk.CallToolResult{}, nil, nil
	})
	handler := streamable(t, s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	start := func() {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		server = &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}}
		server.Start()
	}
	m := manager(t, func(c *Config) { c.ReachTimeout = 20 * time.Second })
	target := &mcp.Target{TenantID: "t", ServerID: "s", Name: "Pay", Fingerprint: "p", Transport: mcp.HTTP, URL: "http://" + address + "/mcp"}
	pay := func() error {
		_, err := m.Call(t.Context(), target, "pay", jsontext.Value(`{}`), mcp.CallKey{})
		return err
	}

	up := time.AfterFunc(400*time.Millisecond, start)
	if err := pay(); err != nil || calls.Load() != 1 {
		t.Fatalf("a call to a server that starts late: %v, %d calls", err, calls.Load())
	}
	up.Stop()

	server.CloseClientConnections()
	server.Close()
	restarted := make(chan struct{})
	time.AfterFunc(400*time.Millisecond, func() { start(); close(restarted) })
	if err := pay(); err != nil || calls.Load() != 2 {
		t.Fatalf("a call during a restart: %v, %d calls", err, calls.Load())
	}
	<-restarted

	cut.Store(true)
	if err := pay(); err == nil || calls.Load() != 3 {
		t.Errorf("a call that was sent and not answered: %v, %d calls", err, calls.Load())
	}
	server.CloseClientConnections()
	server.Close()
}
