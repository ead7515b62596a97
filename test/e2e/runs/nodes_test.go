package runs

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/clock"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

// Two nodes over one PostgreSQL and one NATS are one agentd: a run of one is
// followed, cancelled and read on the other, live.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	t.Run("over_a_NATS_outside", func(t *testing.T) {
		t.Parallel()
		outside := apptest.ExternalNATS(t)
		twoNodes(t, outside, outside)
	})
	t.Run("over_the_NATS_of_one", func(t *testing.T) {
		t.Parallel()
		address := apptest.FreeAddress(t)
		twoNodes(t, func(c *config.Config) { c.Bus.NATSListen = address },
			func(c *config.Config) { c.Bus.NATSURL = config.NewURL("nats://" + address) })
	})
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
	a := apptest.Start(t, sim, shared, first)
	b := apptest.Start(t, sim, shared, second)

	agent := a.CreateAgent(nil)
	id := a.StartRun(agent, "Hello", nil)
	frames := b.ReadStream("/api/v1/runs/"+id+"/events", "", nil)
	if got := apptest.ChunkText(t, frames); got != modeltest.Tokens(30) {
		t.Errorf("the other node heard %q", got)
	}
	again := a.ReadStream("/api/v1/runs/"+id+"/events", "", nil)
	if diff := cmp.Diff(apptest.FrameIDs(again), apptest.FrameIDs(frames)); diff != "" {
		t.Errorf("the nodes tell different stories (-here +there):\n%s", diff)
	}

	hanging := a.StartRun(agent, "hang", nil)
	b.ReadStream("/api/v1/runs/"+hanging+"/events", "", func(f apptest.Frame) bool { return f.Name == "llm.chunk" })
	began := time.Now()
	if got := b.Expect(200, "POST", "/api/v1/runs/"+hanging+"/cancel", nil); got["cancelled"] != true {
		t.Errorf("cancelling on the other node: %v", got)
	}
	if r := a.WaitRun(hanging); r["status"] != "cancelled" {
		t.Errorf("the run is %v", r["status"])
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the cancel took %v", took)
	}

	// A list that begins on one node goes on on the other.
	page := a.Expect(200, "GET", "/api/v1/runs?limit=1", nil)
	rest := b.Expect(200, "GET", "/api/v1/runs?limit=1&cursor="+page["cursor"].(string), nil)
	if rest["items"].([]any)[0].(object)["run_id"] != id {
		t.Errorf("the second page is %v", rest)
	}
}

// A data directory that was copied while its node runs gets a name of its own, which
// it keeps.
func TestCopiedDataDirectory(t *testing.T) {
	t.Parallel()
	database := sqldbtest.Config(t, sqldbtest.Postgres)
	shared := func(c *config.Config) { c.Storage.DatabaseURL = config.NewURL(database.URL) }
	nodeID := func(n *apptest.Server) string {
		b, err := os.ReadFile(filepath.Join(n.Config.Storage.DataDir, "node_id"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	a := apptest.Start(t, nil, shared, apptest.SharedSecretKey)
	name := nodeID(a)
	b := apptest.Start(t, nil, shared, apptest.SharedSecretKey, func(c *config.Config) {
		if err := os.WriteFile(filepath.Join(c.Storage.DataDir, "node_id"), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	fresh := nodeID(b)
	if fresh == name || nodeID(a) != name {
		t.Errorf("%s became %s and %s", name, nodeID(a), fresh)
	}
	b.Stop()
	b = apptest.Restart(t, b.Config)
	if got := nodeID(b); got != fresh {
		t.Errorf("%s became %s by a restart", fresh, got)
	}
	if metrics := string(a.Do("GET", "/metrics", nil).Body); !strings.Contains(metrics, "agentd_clock_skew_seconds ") {
		t.Error("the skew of the clock is not shown")
	}
}

// A node that serves the API alone has its runs carried by one that serves nothing.
func TestRolesOfNodes(t *testing.T) {
	t.Parallel()
	outside, database := apptest.ExternalNATS(t), sqldbtest.Config(t, sqldbtest.Postgres)
	sim := modeltest.New(t, modeltest.Respond(func(modeltest.Request) modeltest.Answer { return modeltest.Answer{Text: "Done."} }))
	as := func(role string) *apptest.Server {
		return apptest.Start(t, sim, outside, func(c *config.Config) {
			c.Storage.DatabaseURL, c.Server.Role = config.NewURL(database.URL), role
			c.Security.SecretKey = secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))
		})
	}
	api := as(config.RoleAPI)
	agent := api.CreateAgent(object{"execution_mode": "worker"})
	id := api.StartRun(agent, "Go.", nil)
	<-time.After(300 * time.Millisecond) // a node that carries runs would have begun
	if r := api.Expect(200, "GET", "/api/v1/runs/"+id, nil); r["status"] != "queued" {
		t.Errorf("the API's node has begun: %v", r["status"])
	}
	worker := as(config.RoleWorker)
	if r := api.WaitRun(id); r["status"] != "completed" {
		t.Errorf("the run is %v", r["status"])
	}
	for path, want := range map[string]int{"/health": 200, "/health/ready": 200, "/metrics": 200, "/api/v1/agents": 404, "/": 404} {
		res, err := http.Get(worker.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != want {
			t.Errorf("%s of the worker is %d, want %d", path, res.StatusCode, want)
		}
	}
	db, err := sqldb.Open(t.Context(), sqldb.Config{URL: database.URL, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	nodes, err := worksql.NewNodes(db, clock.System{}).List(t.Context())
	roles := map[string]bool{}
	for _, n := range nodes {
		roles[n.Role+" "+n.Version] = n.Running
	}
	if diff := cmp.Diff(map[string]bool{"api dev": true, "worker dev": true}, roles); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
