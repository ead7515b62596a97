package runs

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// What operators see of a known run: its calls of the model and of a tool, their
// tokens, and the queue (rule X-metrics-work).
func TestMetricsOfARun(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(modeltest.ToolRounds(2, modeltest.Answer{Text: "Done."})))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
	r := n.WaitRun(n.StartRun(agent, "Go.", nil))
	if r["status"] != "completed" {
		t.Fatalf("the run is %v: %v", r["status"], r["error"])
	}
	scraped := string(n.SendHeaders("GET", "/metrics", "").Body)
	for _, want := range []string{
		`agentd_model_call_seconds_count{model="sim-model",outcome="done",provider="default"} 3`,
		`agentd_model_call_seconds_count{model="sim-model",outcome="failed",provider="default"} 0`,
		`agentd_model_call_seconds_count{model="sim-model",outcome="not_made",provider="default"} 0`,
		`agentd_model_breakers_open{provider="default"} 0`,
		`agentd_tool_call_seconds_count{outcome="done",tool="calculator"} 2`,
		`agentd_queue_depth{kind="run"} 0`,
		`agentd_queue_oldest_seconds{kind="run"} 0`,
	} {
		if !strings.Contains(scraped, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	for direction, field := range map[string]string{"input": "input_tokens", "output": "output_tokens"} {
		series := `agentd_model_tokens_total{direction="` + direction + `",model="sim-model",provider="default"} `
		_, after, found := strings.Cut(scraped, series)
		value, _, _ := strings.Cut(after, "\n")
		if want := fmt.Sprint(r["metrics"].(object)[field]); !found || value != want {
			t.Errorf("%s%s, and the run counts %s", series, value, want)
		}
	}
	if t.Failed() {
		for line := range strings.SplitSeq(scraped, "\n") {
			if strings.HasPrefix(line, "agentd_model") || strings.HasPrefix(line, "agentd_tool") || strings.HasPrefix(line, "agentd_queue") {
				t.Log(line)
			}
		}
	}
}

// A lease that a node finds lost, because another node ended its run meanwhile, is
// counted by that node (rule X-metrics-work).
func TestMetricOfLostLeases(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("waits until a lease is renewed")
	}
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{HangFirst: true}))
	database := sqldbtest.Config(t, sqldbtest.Postgres)
	shared := func(c *config.Config) { c.Storage.DatabaseURL = config.NewURL(database.URL) }
	a := apptest.Start(t, sim, shared, apptest.SharedSecretKey)
	b := apptest.Start(t, sim, shared, apptest.SharedSecretKey) // without a common bus, a receives no signal of the cancel
	const series = `agentd_leases_lost_total{kind="run"} `
	lost := func(n *apptest.Server) string {
		_, after, _ := strings.Cut(string(n.SendHeaders("GET", "/metrics", "").Body), series)
		value, _, _ := strings.Cut(after, "\n")
		return value
	}
	id := a.StartRun(a.CreateAgent(nil), "Go.", nil)
	for sim.Calls() == 0 {
		<-time.After(5 * time.Millisecond)
	}
	if got := lost(a); got != "" && got != "0" {
		t.Errorf("before, the metric is %s", got)
	}
	b.Expect(200, "POST", "/api/v1/runs/"+id+"/cancel", nil)
	for begun := time.Now(); lost(a) != "1"; <-time.After(50 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("the metric is %q", lost(a))
		}
	}
	if got := lost(b); got != "" && got != "0" {
		t.Errorf("of the other node it is %s", got)
	}
}

// Nodes over one database divide the limits of a provider (rule D22-limits-nodes).
func TestTwoNodesDivideALimit(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("waits for heartbeats")
	}
	const limit, runs, takes = 4, 40, 500 * time.Millisecond
	var busy inFlight
	sim := modeltest.New(t, modeltest.Respond(func(modeltest.Request) modeltest.Answer {
		busy.begin(takes)
		return modeltest.Answer{Text: "Done.", TTFT: takes}
	}))
	database := sqldbtest.Config(t, sqldbtest.Postgres)
	shared := func(c *config.Config) {
		c.Storage.DatabaseURL, c.Models.MaxConcurrency = config.NewURL(database.URL), limit
	}
	bus := apptest.ExternalNATS(t)
	a := apptest.Start(t, sim, shared, apptest.SharedSecretKey, bus)
	b := apptest.Start(t, sim, shared, apptest.SharedSecretKey, bus)
	agent := a.CreateAgent(nil)
	var ids []string
	for i := range runs { // b has just come, and a does not know of it yet
		ids = append(ids, []*apptest.Server{a, b}[i%2].StartRun(agent, "Go.", nil))
	}
	for _, id := range ids {
		if r := a.WaitRun(id); r["status"] != "completed" {
			t.Errorf("run %s is %v: %v", id, r["status"], r["error"])
		}
	}
	if most := busy.most(); most > limit || most < limit/2 {
		t.Errorf("%d calls at a time, of %d", most, limit)
	}
}

// A PostgreSQL that is away for longer than a lease, for all nodes: each finds its runs
// again, though one is back some seconds before the other; no call is made twice
// (rule D22-lease-grace).
func TestDatabaseOutageOfTwoNodes(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("lasts longer than a lease")
	}
	const runs, rounds = 20, 2
	database := sqldbtest.Config(t, sqldbtest.Postgres)
	var answered atomic.Int64
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		answered.Add(1)
		a := modeltest.ToolRounds(rounds, modeltest.Answer{Text: "Done."})(req)
		a.TTFT = time.Second
		return a
	}))
	host, url := throughRelay(t, database.URL)
	var lines [2]*relay
	var nodes [2]*apptest.Server
	bus := apptest.ExternalNATS(t)
	for i := range nodes {
		lines[i] = newRelay(t, host)
		nodes[i] = apptest.Start(t, sim, apptest.SharedSecretKey, bus, func(c *config.Config) {
			c.Storage.DatabaseURL = config.NewURL(url(lines[i].address))
		})
	}
	agent := nodes[0].CreateAgent(object{"built_in_tools": []string{"calculator"}})
	var ids []string
	for i := range runs {
		ids = append(ids, nodes[i%2].StartRun(agent, "Go.", nil))
	}
	<-time.After(500 * time.Millisecond)
	for _, line := range lines {
		line.down()
	}
	<-time.After(18 * time.Second) // a lease lasts 15
	lines[1].up()
	<-time.After(3 * time.Second)
	lines[0].up()
	for _, id := range ids {
		if r := nodes[1].WaitRun(id); r["status"] != "completed" {
			t.Errorf("run %s is %v: %v", id, r["status"], r["error"])
		}
	}
	if got, want := answered.Load(), int64(runs*(rounds+1)); got != want {
		t.Errorf("%d answers for %d steps: some were lost, or paid for twice", got, want)
	}
}
