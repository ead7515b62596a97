package mcpclient

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/agents/mcp"
)

// openConns counts the connections that a client has not closed.
type openConns struct{ n atomic.Int64 }

type countedConn struct {
	net.Conn
	closed func()
}

func (c countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (o *openConns) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	o.n.Add(1)
	return countedConn{c, sync.OnceFunc(func() { o.n.Add(-1) })}, nil
}

// wait waits until the client has seen the end of all its connections.
func (o *openConns) wait(t *testing.T) {
	t.Helper()
	for begun := time.Now(); o.n.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d connections to a server that ended are open", o.n.Load())
		}
	}
}

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
	open := &openConns{}
	m := manager(t, func(c *Config) {
		c.ReachTimeout = 20 * time.Second
		c.Transport.(*http.Transport).DialContext = open.dial
	})
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
	open.wait(t) // a call on a connection whose end was not seen yet may have taken effect
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
