package runs

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/agents/mcp/mcptest"
	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// payments is an MCP server whose tool takes a while and must not be called again
// where its outcome is unknown.
type payments struct {
	url   string
	calls atomic.Int64
	busy  atomic.Int64  // calls under way
	until chan struct{} // where not nil, calls last until it is closed
}

func newPayments(t *testing.T, takes time.Duration) *payments {
	p := &payments{}
	s := mcptest.New()
	s.AddTool(&sdk.Tool{Name: "pay", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		p.calls.Add(1)
		p.busy.Add(1)
		defer p.busy.Add(-1)
		<-time.After(takes)
		if p.until != nil {
			<-p.until
		}
		return mcptest.Text("paid"), nil
	})
	p.url = mcptest.Serve(t, mcptest.Handler(t, s))
	return p
}

// payTwice is a model that pays two times.
func payTwice(req modeltest.Request) modeltest.Answer {
	return modeltest.ToolRounds(2, modeltest.Answer{Text: "Done."})(req)
}

// drain stops a server as SIGTERM does.
func drain(t *testing.T, n *apptest.Server) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n.App.Drain(ctx)
	n.Stop()
}

// A server that is stopped while 50 tools are at work ends when they have ended,
// and no call is made again or has an unknown outcome. Requests are served and
// readers are sent elsewhere meanwhile.
func TestDrain(t *testing.T) {
	t.Parallel()
	const runs = 50
	pay := newPayments(t, 0)
	pay.until = make(chan struct{})
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(payTwice)), local)
	agent := n.CreateAgent(object{"mcp": object{"servers": []object{{"id": "p", "name": "P", "transport": "http", "url": pay.url}}, "allowed_tools": []string{"pay"}}})
	var ids []string
	for range runs {
		ids = append(ids, n.StartRun(agent, "Pay.", nil))
	}
	stream := n.OpenStream(t, "/api/v1/runs/"+ids[0]+"/events", "Authorization", "Bearer "+n.Key)
	apptest.Eventually(t, func() bool { return pay.busy.Load() == runs })
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		drain(t, n)
	}()
	apptest.Eventually(t, func() bool { return n.Do("GET", "/health/ready", nil).StatusCode == 503 })
	ids = append(ids, n.StartRun(agent, "Pay.", nil))
	close(pay.until)
	text, err := io.ReadAll(stream.Body)
	if err != nil || !regexp.MustCompile(`\n\nretry: \d{4}\n\n$`).Match(text) || strings.Contains(string(text), "event: error") {
		t.Errorf("the stream ends with %q, %v", text, err)
	}
	<-stopped
	if busy := pay.busy.Load(); busy > 0 {
		t.Errorf("%d calls were cut off", busy)
	}
	n = apptest.Restart(t, n.Config)
	paidTwice(t, n, pay, ids)
}

// paidTwice waits for the end of runs, and checks that each paid twice and knows it.
func paidTwice(t *testing.T, n *apptest.Server, pay *payments, ids []string) {
	t.Helper()
	for _, id := range ids {
		if r := n.WaitRun(id); r["status"] != "completed" {
			t.Errorf("run %s is %v: %v", id, r["status"], r["error"])
		}
		steps := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
		if len(steps) != 5 || strings.Contains(fmt.Sprint(steps), "interrupted") {
			t.Errorf("run %s has the steps %v", id, steps)
		}
	}
	if calls := pay.calls.Load(); int(calls) != 2*len(ids) {
		t.Errorf("%d runs made %d calls", len(ids), calls)
	}
}

// Nodes that are restarted one after another hand their runs over.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	database := sqldbtest.Config(t, sqldbtest.Postgres)
	bus := apptest.ExternalNATS(t)
	pay := newPayments(t, 300*time.Millisecond)
	sim := modeltest.New(t, modeltest.Respond(payTwice))
	shared := func(c *config.Config) { c.Storage.DatabaseURL = config.NewURL(database.URL) }
	a := apptest.Start(t, sim, shared, apptest.SharedSecretKey, bus, local)
	b := apptest.Start(t, sim, shared, apptest.SharedSecretKey, bus, local)
	agent := a.CreateAgent(object{"mcp": object{"servers": []object{{"id": "p", "name": "P", "transport": "http", "url": pay.url}}, "allowed_tools": []string{"pay"}}})
	var ids []string
	for i := range 20 {
		ids = append(ids, []*apptest.Server{a, b}[i%2].StartRun(agent, "Pay.", nil))
	}
	apptest.Eventually(t, func() bool { return pay.busy.Load() > 0 })
	drain(t, a)
	a = apptest.Restart(t, a.Config)
	drain(t, b)
	paidTwice(t, a, pay, ids)
}
