package app_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"

	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// Two nodes over one PostgreSQL and one NATS are one agentd: a run of one is
// followed, cancelled and read on the other, live.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	t.Run("over_a_NATS_outside", func(t *testing.T) {
		t.Parallel()
		outside := natsOutside(t)
		twoNodes(t, outside, outside)
	})
	t.Run("over_the_NATS_of_one", func(t *testing.T) {
		t.Parallel()
		address := freeAddress(t)
		twoNodes(t, func(c *config.Config) { c.Bus.NATSListen = address },
			func(c *config.Config) { c.Bus.NATSURL = config.NewURL("nats://" + address) })
	})
}

// natsOutside starts a NATS and gives the setting that names it.
func natsOutside(t *testing.T) func(*config.Config) {
	t.Helper()
	bus, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	bus.Start()
	t.Cleanup(func() { bus.Shutdown(); bus.WaitForShutdown() })
	if !bus.ReadyForConnections(5 * time.Second) {
		t.Fatal("NATS does not start")
	}
	return func(c *config.Config) { c.Bus.NATSURL = config.NewURL(bus.ClientURL()) }
}

func twoNodes(t *testing.T, first, second func(*config.Config)) {
	database := sqldbtest.Config(t, sqldbtest.Postgres)
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if req.Chat().Last("user") == "hang" {
			return modeltest.Answer{Text: "one two three", HangAfter: 1}
		}
		return modeltest.Answer{Text: modeltest.Tokens(30), Delay: 10 * time.Millisecond}
	}))
	shared := func(c *config.Config) {
		c.Storage.DatabaseURL = config.NewURL(database.URL)
		c.Security.SecretKey = secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))
	}
	a := start(t, sim, shared, first)
	b := start(t, sim, shared, second)

	agent := a.agent(nil)
	id := a.run(agent, "Hello", nil)
	frames := b.stream("/api/v1/runs/"+id+"/events", "", nil)
	if got := said(t, frames); got != modeltest.Tokens(30) {
		t.Errorf("the other node heard %q", got)
	}
	again := a.stream("/api/v1/runs/"+id+"/events", "", nil)
	if diff := cmp.Diff(frameIDs(again), frameIDs(frames)); diff != "" {
		t.Errorf("the nodes tell different stories (-here +there):\n%s", diff)
	}

	hanging := a.run(agent, "hang", nil)
	b.stream("/api/v1/runs/"+hanging+"/events", "", func(f frame) bool { return f.name == "llm.chunk" })
	began := time.Now()
	if got := b.want(200, "POST", "/api/v1/runs/"+hanging+"/cancel", nil); got["cancelled"] != true {
		t.Errorf("cancelling on the other node: %v", got)
	}
	if r := a.ended(hanging); r["status"] != "cancelled" {
		t.Errorf("the run is %v", r["status"])
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the cancel took %v", took)
	}

	// A list that begins on one node goes on on the other.
	page := a.want(200, "GET", "/api/v1/runs?limit=1", nil)
	rest := b.want(200, "GET", "/api/v1/runs?limit=1&cursor="+page["cursor"].(string), nil)
	if rest["items"].([]any)[0].(object)["run_id"] != id {
		t.Errorf("the second page is %v", rest)
	}
}

func frameIDs(frames []frame) (out []string) {
	for _, f := range frames {
		out = append(out, f.String())
	}
	return out
}
