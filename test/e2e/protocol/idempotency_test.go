package protocol

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// onceRoutes are writes and how many effects they had, counted by reading.
func onceRoutes(n *apptest.Server) []onceRoute {
	agent := n.CreateAgent(nil)
	session := n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent})["session_id"].(string)
	list := func(path, field string) func(n *apptest.Server, mark string) int {
		return func(n *apptest.Server, mark string) int {
			found, cursor := 0, ""
			for {
				page := n.Expect(200, "GET", path+"limit=100&cursor="+cursor, nil)
				items, ok := page["items"].([]any)
				if !ok {
					items = page["keys"].([]any)
				}
				for _, item := range items {
					if item := item.(object); field != "" && item[field] == mark || field == "" && item["metadata"].(object)["mark"] == mark {
						found++
					}
				}
				if page["has_more"] != true {
					return found
				}
				cursor = page["cursor"].(string)
			}
		}
	}
	return []onceRoute{
		{"/api/v1/agents", func(mark string) object { return object{"name": mark} }, list("/api/v1/agents?", "name")},
		{"/api/v1/runs", func(mark string) object {
			return object{"agent_id": agent, "input": object{"message": "hello"}, "metadata": object{"mark": mark}}
		}, list("/api/v1/runs?", "")},
		{"/api/v1/sessions", func(mark string) object {
			return object{"agent_id": agent, "metadata": object{"mark": mark}}
		}, list("/api/v1/sessions?", "")},
		{"/api/v1/sessions/" + session + "/messages", func(mark string) object {
			return object{"content": "hello " + mark}
		}, func(n *apptest.Server, mark string) int {
			found := 0
			for _, m := range n.Expect(200, "GET", "/api/v1/sessions/"+session+"/messages?limit=500", nil)["messages"].([]any) {
				if m.(object)["content"] == "hello "+mark {
					found++
				}
			}
			return found
		}},
		{"/api/v1/commerce/customers", func(mark string) object { return object{"name": mark} }, list("/api/v1/commerce/customers?", "name")},
		{"/api/v1/tenants/me/keys", func(mark string) object { return object{"name": mark} }, list("/api/v1/tenants/me/keys?", "name")},
	}
}

type onceRoute struct {
	path  string
	body  func(mark string) object
	count func(n *apptest.Server, mark string) int
}

// Equal concurrent writes have one effect, on one node and on two: one of them
// runs, the others get its answer or a refusal that asks them to wait.
func TestOneEffectEach(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	rounds := 6
	if all := os.Getenv("AGENTD_TEST_ROUNDS"); all != "" {
		rounds, _ = strconv.Atoi(all)
	}
	sim := modeltest.New(t, modeltest.Respond(func(modeltest.Request) modeltest.Answer { return modeltest.Answer{Text: "Hello."} }))
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		n := apptest.Start(t, sim, apptest.OnEngine(t, sqldbtest.SQLite))
		oneEffectEach(t, rounds, n)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		shared := apptest.OnEngine(t, sqldbtest.Postgres)
		oneEffectEach(t, rounds, apptest.Start(t, sim, shared, apptest.SharedSecretKey), apptest.Start(t, sim, shared, apptest.SharedSecretKey))
	})
}

func oneEffectEach(t *testing.T, rounds int, nodes ...*apptest.Server) {
	const clients = 50
	routes := onceRoutes(nodes[0])
	for round := range rounds {
		route := routes[round%len(routes)]
		mark := fmt.Sprintf("round %d", round)
		key := fmt.Sprintf("round-%d", round)
		text, err := json.Marshal(route.body(mark), json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		answers := make([]apptest.Reply, clients)
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				answers[i] = nodes[i%len(nodes)].Do("POST", route.path, string(text), "Idempotency-Key", key)
			})
		}
		all.Wait()
		final := nodes[len(nodes)-1].Do("POST", route.path, string(text), "Idempotency-Key", key)
		if final.StatusCode/100 != 2 || final.Header.Get("X-Idempotency-Replayed") != "true" {
			t.Fatalf("%s: the effect is not kept: %d %s", route.path, final.StatusCode, final.Body)
		}
		done := 0
		for _, a := range answers {
			switch {
			case a.StatusCode == 202 && a.JSON["in_progress"] == true:
				if a.Header.Get("Retry-After") == "" {
					t.Error("a 202 without Retry-After")
				}
			case a.JSON["raw_key"] != nil && final.JSON["secret_shown_once"] == true: // the one that had the effect
				done++
			case string(a.Body) != string(final.Body):
				t.Errorf("%s: %d %s, want %s", route.path, a.StatusCode, a.Body, final.Body)
			case a.Header.Get("X-Idempotency-Replayed") == "":
				done++
			}
		}
		if done != 1 {
			t.Errorf("%s: %d requests say that they had the effect", route.path, done)
		}
		if got := cmp.Or(route.count(nodes[0], mark), -1); got != 1 {
			t.Errorf("%s: %d effects", route.path, got)
		}
	}
}

// A key is bound to a person and a request; what is refused for reasons that
// may pass is tried again.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		const agents = "/api/v1/agents"
		post := func(n *apptest.Server, path, body, key string) apptest.Reply {
			return n.Do("POST", path, body, "Idempotency-Key", key)
		}
		replayed := func(r apptest.Reply) bool { return r.Header.Get("X-Idempotency-Replayed") == "true" }

		for _, bad := range []string{"a b", "a/b", "ä", strings.Repeat("k", 129)} {
			post(n, agents, `{"name":"x"}`, bad).IsProblem(t, 400, "INVALID_IDEMPOTENCY_KEY")
		}
		post(n, agents, `{"name":"x"`, "a b").IsProblem(t, 400, "INVALID_IDEMPOTENCY_KEY")
		n.SendBytes("POST", "POST "+agents+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+n.Key+
			"\r\nContent-Length: 12\r\nIdempotency-Key: a\r\nIdempotency-Key: a\r\n\r\n{\"name\":\"x\"}").IsProblem(t, 400, "INVALID_IDEMPOTENCY_KEY")
		if r := n.Do("GET", agents, nil, "Idempotency-Key", "a b"); r.StatusCode != 200 {
			t.Errorf("a read looks at the key: %d", r.StatusCode)
		}

		first := post(n, agents, `{"name":"mine"}`, "k1")
		other := n.WithKey(string(n.Admin().CreateKey(first.JSON["tenant_id"].(string), "developer", "*").RawKey))
		if theirs := post(other, agents, `{"name":"theirs"}`, "k1"); theirs.StatusCode != 201 || replayed(theirs) {
			t.Errorf("another person's key: %d %s", theirs.StatusCode, theirs.Body)
		}
		// Nor is what one key did shown to another of the same person, which may do less.
		const keys = "/api/v1/tenants/me/keys"
		less := n.WithKey(n.Expect(201, "POST", keys, object{"name": "less", "scopes": []string{"api_keys:write"}})["raw_key"].(string))
		made := post(n, keys, `{"name":"all","scopes":["*"]}`, "keymake-1")
		post(less, keys, `{"name":"all","scopes":["*"]}`, "keymake-1").IsProblem(t, 422, "SCOPE_NOT_HELD")
		again := post(n, keys, `{"name":"all","scopes":["*"]}`, "keymake-1")
		if made.JSON["raw_key"] == nil || !replayed(again) || again.JSON["key_id"] != made.JSON["key_id"] || again.JSON["raw_key"] != nil ||
			again.JSON["secret_shown_once"] != true {
			t.Errorf("%s, then %s", made.Body, again.Body)
		}
		post(n, agents, `{"name": "mine"}`, "k1").IsProblem(t, 422, "IDEMPOTENCY_KEY_REUSED") // other bytes
		post(n, agents, `{`, "k1").IsProblem(t, 422, "IDEMPOTENCY_KEY_REUSED")
		n.Do("PUT", agents+"/"+first.JSON["agent_id"].(string), `{"name":"mine"}`, "Idempotency-Key", "k1").IsProblem(t, 422, "IDEMPOTENCY_KEY_REUSED")

		// A refusal that the request deserves is repeated, whatever has changed.
		missing := agents + "/" + "0198c0de-0000-7000-8000-000000000001"
		gone := n.Do("DELETE", missing, nil, "Idempotency-Key", "k2")
		again = n.Do("DELETE", missing, nil, "Idempotency-Key", "k2")
		if gone.StatusCode != 404 || !replayed(again) || string(again.Body) != string(gone.Body) {
			t.Errorf("a 404 again: %d %v %s", again.StatusCode, again.Header, again.Body)
		}
		for range 2 { // the second delete finds nothing to delete, and is answered as the first
			if r := n.Do("DELETE", agents+"/"+first.JSON["agent_id"].(string), nil, "Idempotency-Key", "k3"); r.StatusCode != 200 {
				t.Errorf("%d %s", r.StatusCode, r.Body)
			}
		}
		wrong := post(n, agents, `{"name":7}`, "k4")
		if r := post(n, agents, `{"name":7}`, "k4"); wrong.StatusCode != 422 || !replayed(r) {
			t.Errorf("a 422 again: %d %s", r.StatusCode, r.Body)
		}

		// One that may pass is tried again.
		agent := n.CreateAgent(nil)
		run := object{"agent_id": agent, "input": object{"message": "hello"}}
		text, err := json.Marshal(run, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		n.Expect(200, "POST", agents+"/"+agent+"/suspend", object{"reason": "a test"})
		post(n, "/api/v1/runs", string(text), "k5").IsProblem(t, 409, "INVALID_STATE_TRANSITION")
		n.Expect(200, "POST", agents+"/"+agent+"/activate", nil)
		if r := post(n, "/api/v1/runs", string(text), "k5"); r.StatusCode/100 != 2 || replayed(r) {
			t.Errorf("after a 409: %d %s", r.StatusCode, r.Body)
		}

		// Who may not, may not repeat: the scope is looked at first.
		reader := n.WithKey(string(n.Admin().CreateKey(first.JSON["tenant_id"].(string), "developer", "agents:read").RawKey))
		post(reader, agents, `{"name":"mine"}`, "k1").IsProblem(t, 403, "MISSING_SCOPE")

		// A restart forgets nothing.
		kept := post(n, agents, `{"name":"kept"}`, "k6")
		n.Stop()
		if r := post(apptest.Restart(t, n.Config), agents, `{"name":"kept"}`, "k6"); !replayed(r) || string(r.Body) != string(kept.Body) {
			t.Errorf("after a restart: %d %s", r.StatusCode, r.Body)
		}
	})
}

// Uploads are bound to their bytes, which are hashed while they are read.
func TestUploadsAreRepeated(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	form := func(content string) (string, []string) {
		return "--cut\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n" + content + "\r\n--cut--\r\n",
			[]string{"Content-Type", "multipart/form-data; boundary=cut", "Idempotency-Key", "upload"}
	}
	big, headers := form(strings.Repeat("0123456789", 300_000))
	first := n.Do("POST", "/api/v1/files", big, headers...)
	again := n.Do("POST", "/api/v1/files", big, headers...)
	if first.StatusCode != 201 || string(again.Body) != string(first.Body) || again.Header.Get("X-Idempotency-Replayed") != "true" {
		t.Errorf("%d %s, then %d %s", first.StatusCode, first.Body, again.StatusCode, again.Body)
	}
	other, headers := form("another file")
	n.Do("POST", "/api/v1/files", other, headers...).IsProblem(t, 422, "IDEMPOTENCY_KEY_REUSED")
	if files := n.Expect(200, "GET", "/api/v1/files", nil)["items"].([]any); len(files) != 1 {
		t.Errorf("%d files", len(files))
	}
}

// kill -9 among writes that carry keys, start again, send them all again: each
// has had one effect.
func TestKillNineAmongKeys(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("builds and kills the program")
	}
	const lives, clients = 4, 8
	p := apptest.BuildProcess(t, modeltest.New(t, apptest.HangingModel))
	var names []string
	var mu sync.Mutex
	send := func(name string) error {
		body := strings.NewReader(fmt.Sprintf(`{"name":%q}`, name))
		req, err := http.NewRequest("POST", p.URL+"/api/v1/agents", body)
		if err != nil {
			return err
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + p.Key, "Content-Type": "application/json", "Idempotency-Key": name} {
			req.Header.Set(name, value)
		}
		resp, err := apptest.HTTPClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != 201 && resp.StatusCode != 202 {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	}
	for life := range lives {
		p.Start()
		var all sync.WaitGroup
		for c := range clients {
			all.Go(func() {
				for i := 0; ; i++ {
					name := fmt.Sprintf("agent-%d-%d-%d", life, c, i)
					mu.Lock()
					names = append(names, name)
					mu.Unlock()
					if send(name) != nil {
						return // killed
					}
				}
			})
		}
		<-time.After(time.Duration(150+70*life) * time.Millisecond)
		p.Kill()
		all.Wait()
	}
	p.Start()
	for _, name := range names {
		if err := send(name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	had := map[string]int{}
	for cursor := ""; ; {
		page := p.Expect(200, "GET", "/api/v1/agents?limit=100&cursor="+cursor, nil)
		for _, a := range page["items"].([]any) {
			had[a.(object)["name"].(string)]++
		}
		if page["has_more"] != true {
			break
		}
		cursor = page["cursor"].(string)
	}
	for _, name := range names {
		if had[name] != 1 {
			t.Errorf("%s had %d effects", name, had[name])
		}
	}
	t.Logf("%d writes over %d kills", len(names), lives)
}
