package delivery

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// tally is a receiver of changes of agents that counts, by its paths.
type tally struct {
	url string

	mu     sync.Mutex
	paths  map[string]map[string]*change
	answer func(path string, before int) int // status, of the how-manieth request with this event; 0: none
}

// change is an event: what a path knows of it.
type change struct {
	mark     string // the agent's description
	requests int
	taken    int
	at       time.Time // first
}

func newTally(t *testing.T, answer func(path string, before int) int) *tally {
	t.Helper()
	in := &tally{paths: map[string]map[string]*change{}, answer: answer}
	server := httptest.NewServer(in)
	t.Cleanup(server.Close)
	in.url = server.URL
	return in
}

func (in *tally) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	raw, _ := io.ReadAll(r.Body)
	var body struct {
		Data struct {
			Description string `json:"description"`
		} `json:"data"`
	}
	_ = json.Unmarshal(raw, &body)
	event := r.Header.Get("X-SVC-Event-Id")
	in.mu.Lock()
	if in.paths[r.URL.Path] == nil {
		in.paths[r.URL.Path] = map[string]*change{}
	}
	c := in.paths[r.URL.Path][event]
	if c == nil {
		c = &change{mark: body.Data.Description, at: now}
		in.paths[r.URL.Path][event] = c
	}
	status := in.answer(r.URL.Path, c.requests)
	c.requests++
	if status == 200 {
		c.taken++
	}
	in.mu.Unlock()
	switch {
	case status == 0:
		<-r.Context().Done()
		return
	case strings.HasPrefix(r.URL.Path, "/slow"):
		<-time.After(time.Second)
	}
	w.WriteHeader(status)
}

// taken says how many events a path has taken, and how many requests brought one
// that it had.
func (in *tally) taken(path string) (events, repeats int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, c := range in.paths[path] {
		if c.taken > 0 {
			events++
			repeats += c.taken - 1
		}
	}
	return events, repeats
}

// requests is how many a path got.
func (in *tally) requests(path string) (n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, c := range in.paths[path] {
		n += c.requests
	}
	return n
}

// reachable lets a node send to what listens on this machine.
func (in *tally) reachable(c *config.Config) {
	c.Security.EgressAllow = "127.0.0.1"
	c.Webhooks.RetryWaits = "20ms,50ms,100ms,200ms"
}

// countRows counts what a query gives.
func countRows(n *apptest.Server, query string) int { return len(n.Admin().Query(query)) }

func describeAgent(n *apptest.Server, agent, mark string) {
	n.T.Helper()
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"description": mark})
}

// kill -9 in the middle of deliveries, again and again: every event whose change
// was answered arrives everywhere, at most so many twice as a node has attempts
// that are not written down, and nothing is disabled by what was cut off.
func TestKillNineWhileDelivering(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("builds and kills the program")
	}
	const events, receivers = 60, 10
	kills := 4
	if n, err := strconv.Atoi(os.Getenv("AGENTD_TEST_KILLS")); err == nil {
		kills = max(kills, n/20)
	}
	refused := 0
	in := newTally(t, func(path string, before int) int {
		if path < "/2" && before == 0 { // a fifth of the receivers, every second event at first
			if refused++; refused%2 == 0 {
				return 500
			}
		}
		return 200
	})
	sim := modeltest.New(t, apptest.HangingModel)
	p := apptest.BuildProcess(t, sim)
	p.Env = append(p.Env, "AGENTD_EGRESS_ALLOW=127.0.0.1", "AGENTD_WEBHOOK_RETRY_WAITS=20ms,50ms,100ms,200ms")
	p.Start()
	agent := p.CreateAgent(nil)
	var hooks []string
	for i := range receivers {
		id, _ := createWebhook(p.Server, fmt.Sprint(in.url, "/", i), "agent.updated")
		hooks = append(hooks, id)
	}
	for life := range kills {
		for i := range events / kills {
			describeAgent(p.Server, agent, fmt.Sprint(life, "-", i))
		}
		<-time.After(time.Duration(1+7*life%23) * time.Millisecond)
		p.Kill()
		p.Start()
	}
	repeats := 0
	for i := range receivers {
		path := fmt.Sprint("/", i)
		apptest.Eventually(t, func() bool { n, _ := in.taken(path); return n == events/kills*kills })
		_, again := in.taken(path)
		repeats += again
	}
	t.Logf("%d kills; %d of %d deliveries came twice", kills, repeats, events/kills*kills*receivers)
	if most := 2 * 24 * kills; repeats > most {
		t.Errorf("%d deliveries came twice, more than %d", repeats, most)
	}
	for i, id := range hooks {
		apptest.Eventually(t, func() bool { return p.Expect(200, "GET", "/api/v1/webhooks/"+id, nil)["failure_count"] == 0.0 })
		if sub := p.Expect(200, "GET", "/api/v1/webhooks/"+id, nil); sub["status"] != "active" {
			t.Errorf("subscription %d is %v", i, sub)
		}
	}
}

// Two nodes over one PostgreSQL and one NATS send what happens on either, once,
// also when one of them stops; and count what fails exactly.
func TestTwoNodesDeliver(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	in := newTally(t, func(path string, _ int) int {
		if path == "/refuses" {
			return 410
		}
		return 200
	})
	database, bus := sqldbtest.Migrated(t, sqldbtest.Postgres), apptest.ExternalNATS(t)
	shared := func(c *config.Config) {
		c.Storage.DatabaseURL = config.NewURL(database.URL)
		c.Security.SecretKey = secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))
	}
	nodes := []*apptest.Server{apptest.Start(t, nil, shared, bus, in.reachable), apptest.Start(t, nil, shared, bus, in.reachable)}
	a, b := nodes[0], nodes[1]
	agent := a.CreateAgent(nil)

	// Deleting on one node ends what the other sends, whichever does.
	const backlog = 50
	sent := make([]int, len(nodes))
	for i, n := range nodes {
		path := fmt.Sprint("/slow", i)
		id, _ := createWebhook(n, in.url+path, "agent.updated")
		for j := range backlog {
			describeAgent(nodes[j%2], agent, fmt.Sprint(path, "-", j))
		}
		apptest.Eventually(t, func() bool { return in.requests(path) > 0 })
		n.Expect(200, "DELETE", "/api/v1/webhooks/"+id, nil)
		sent[i] = in.requests(path)
		if left := countRows(n, `SELECT 1 FROM work WHERE kind = 'webhook'`); left != 0 {
			t.Errorf("%d lanes are left", left)
		}
	}

	// What fails counts once, on whichever node: 3 and 20 in a row are what they are.
	id, _ := createWebhook(a, in.url+"/refuses", "agent.updated")
	path := "/api/v1/webhooks/" + id
	for i := range 20 {
		describeAgent(nodes[i%2], agent, fmt.Sprint("refused ", i))
		apptest.Eventually(t, func() bool { return nodes[(i+1)%2].Expect(200, "GET", path, nil)["failure_count"] == float64(i+1) })
		want := "active"
		switch {
		case i+1 >= 20:
			want = "disabled"
		case i+1 >= 3:
			want = "failing"
		}
		if sub := a.Expect(200, "GET", path, nil); sub["status"] != want {
			t.Errorf("after %d failures the subscription is %v", i+1, sub)
		}
	}
	b.Expect(200, "POST", path+"/enable", nil)
	for i := range 30 { // many at once, from both
		describeAgent(nodes[i%2], agent, fmt.Sprint("refused again ", i))
	}
	apptest.Eventually(t, func() bool { return a.Expect(200, "GET", path, nil)["status"] == "disabled" })
	sameCount := func() bool {
		return b.Expect(200, "GET", path, nil)["failure_count"] == float64(countRows(a, `SELECT 1 FROM webhook_deliveries WHERE status = 'failed'`)-20)
	}
	apptest.Eventually(t, sameCount)
	if n := in.requests("/refuses"); n != countRows(a, `SELECT 1 FROM webhook_deliveries WHERE webhook_id = '`+id+`' AND status = 'failed'`) {
		t.Errorf("%d requests were made, which is not what the log says", n)
	}
	a.Expect(200, "DELETE", path, nil)
	for i := range nodes {
		if seen := in.requests(fmt.Sprint("/slow", i)); seen > sent[i]+16 || seen == backlog {
			t.Errorf("deleted on node %d after %d were sent, %d were", i, sent[i], seen)
		}
	}

	// A node stops in the middle: the other goes on, and nothing comes twice.
	createWebhook(a, in.url+"/well", "agent.updated")
	for i := range 40 {
		describeAgent(nodes[i%2], agent, fmt.Sprint("well ", i))
	}
	a.Stop()
	for i := range 20 {
		describeAgent(b, agent, fmt.Sprint("still ", i))
	}
	apptest.Eventually(t, func() bool { n, _ := in.taken("/well"); return n == 60 })
	if _, again := in.taken("/well"); again != 0 {
		t.Errorf("%d came twice", again)
	}
}

// A node that is killed leaves its receivers to the other, once its lease has
// run out.
func TestKillNineDeliversElsewhere(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("waits for a lease to run out")
	}
	in := newTally(t, func(string, int) int { return 200 })
	sim := modeltest.New(t, apptest.HangingModel)
	database := sqldbtest.Migrated(t, sqldbtest.Postgres)
	shared := []string{
		"AGENTD_DATABASE_URL=" + database.URL, "AGENTD_SECRET_KEY=" + base64.StdEncoding.EncodeToString(make([]byte, 32)), "AGENTD_EGRESS_ALLOW=127.0.0.1",
	}
	a := apptest.BuildProcess(t, sim)
	a.Env = append(a.Env, shared...)
	a.Start()
	b := apptest.NewProcess(t, a.Program, sim, shared...)
	agent := a.CreateAgent(nil)
	createWebhook(a.Server, in.url+"/slow", "agent.updated")
	for i := range 30 {
		describeAgent(a.Server, agent, fmt.Sprint("first ", i))
	}
	apptest.Eventually(t, func() bool { return in.requests("/slow") > 0 })
	a.Kill()
	b.Start()
	for i := range 10 {
		describeAgent(b.Server, agent, fmt.Sprint("then ", i))
	}
	for end := time.Now().Add(45 * time.Second); ; <-time.After(50 * time.Millisecond) {
		n, again := in.taken("/slow")
		if n == 40 {
			t.Logf("%d came twice", again)
			if again > 24 {
				t.Errorf("%d came twice", again)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of 40 events arrived", n)
		}
	}
}

// Receivers that never answer slow down nobody: not others of their tenant, nor
// those of another.
func TestReceiversThatHang(t *testing.T) {
	t.Parallel()
	in := newTally(t, func(path string, _ int) int {
		if path == "/hangs" {
			return 0
		}
		return 200
	})
	n := apptest.Start(t, nil, in.reachable)
	_, other := n.CreateTenant(object{"name": "Other", "slug": "other"})
	agents := map[*apptest.Server]string{n: n.CreateAgent(nil), other: other.CreateAgent(nil)}
	for range 12 {
		createWebhook(n, in.url+"/hangs", "agent.updated")
	}
	createWebhook(n, in.url+"/well", "agent.updated")
	createWebhook(other, in.url+"/other", "agent.updated")
	made := map[string]time.Time{}
	const events = 20
	for i := range events {
		for who, agent := range agents {
			mark := fmt.Sprint(who == n, i)
			made[mark] = time.Now()
			describeAgent(who, agent, mark)
		}
	}
	for _, path := range []string{"/well", "/other"} {
		apptest.Eventually(t, func() bool { taken, _ := in.taken(path); return taken == events })
		in.mu.Lock()
		for _, c := range in.paths[path] {
			if late := c.at.Sub(made[c.mark]); late > 2*time.Second {
				t.Errorf("%s: an event came after %v", path, late)
			}
		}
		in.mu.Unlock()
	}
}

// A refused write emits no event, and a repeated request emits one.
func TestRefusedWritesTellNobody(t *testing.T) {
	t.Parallel()
	in := newTally(t, func(string, int) int { return 200 })
	plans := filepath.Join(t.TempDir(), "plans.json")
	if err := os.WriteFile(plans, []byte(`{"plans":[{"id":"small","name":"Small","limits":{"agents":1}}],"default":"small"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	n := apptest.Start(t, nil, in.reachable, func(c *config.Config) { c.Tenancy.Plans = plans })
	id, _ := createWebhook(n, in.url+"/", "agent.created", "agent.updated", "agent.deleted")
	told := func(want int, after string) {
		t.Helper()
		if got := n.Expect(200, "GET", "/api/v1/webhooks/"+id+"/deliveries", nil)["total"]; got != float64(want) {
			t.Errorf("%v events were told after %s, want %d", got, after, want)
		}
	}
	var agent string
	for range 2 {
		agent = n.Expect(201, "POST", "/api/v1/agents", object{"name": "one"}, "Idempotency-Key", "once")["agent_id"].(string)
	}
	told(1, "an agent was created once, and asked for twice")
	path := "/api/v1/agents/" + agent
	first := n.Do("GET", path, nil)
	for range 2 {
		n.Expect(200, "PATCH", path, object{"description": "changed"}, "Idempotency-Key", "changed")
	}
	told(2, "it was changed once, and asked for twice")
	n.Expect(403, "POST", "/api/v1/agents", object{"name": "two"})
	told(2, "an agent too many")
	n.Expect(412, "PATCH", path, object{"description": "again"}, "If-Match", first.Header.Get("ETag"))
	told(2, "a change of something older")
	n.Expect(422, "PATCH", path, object{"name": ""})
	n.Expect(404, "PATCH", "/api/v1/agents/"+n.TenantID(), object{"name": "x"})
	told(2, "what is refused for itself")
	n.Expect(200, "DELETE", path, nil)
	n.Do("DELETE", path, nil)
	told(3, "it was deleted")
}
