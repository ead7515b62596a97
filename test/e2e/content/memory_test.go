package content

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/base/config"
	"agentd/internal/base/ident"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// contents returns the content of the entries under a key of an answer.
func contents(t testing.TB, answer object, key string) []string {
	t.Helper()
	out := []string{}
	for _, e := range answer[key].([]any) {
		out = append(out, e.(object)["content"].(string))
	}
	return out
}

// createMemoryAgent makes an agent and gives the path of its memory.
func createMemoryAgent(n *apptest.Server, fields object) (agent, path string) {
	n.T.Helper()
	agent = n.CreateAgent(fields)
	return agent, "/api/v1/agents/" + agent + "/memory"
}

// The memory entries of an agent as callers see them.
func TestMemoryEntries(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent, path := createMemoryAgent(n, nil)
	e := n.Expect(201, "POST", path, object{
		"content": "The user likes tea", "type": "semantic", "tags": []string{"drink"}, "relevance_score": 0.75, "entity_name": "Ada", "entity_type": "person",
		"metadata": object{"from": "a test"},
	})
	id := e["entry_id"].(string)
	if e["agent_id"] != agent || e["type"] != "semantic" || e["relevance_score"] != 0.75 || e["access_count"] != 0.0 || e["last_accessed_at"] != nil || e["source_run_id"] != nil {
		t.Errorf("made: %v", e)
	}
	if diff := cmp.Diff(e, n.Expect(200, "GET", path+"/"+id, nil)); diff != "" {
		t.Errorf("(-made +read):\n%s", diff)
	}
	apptest.CheckCode(t, n.Do("POST", path, object{"content": strings.Repeat("x", 2<<20+1)}), 413, "PAYLOAD_TOO_LARGE")
	apptest.CheckCode(t, n.Do("POST", path, object{"content": "", "type": "dream", "tags": slices.Repeat([]string{"t"}, 21)}), 422, "VALIDATION_ERROR")

	of := n.Expect(200, "GET", path+"/entities/ADA", nil)
	if of["total"] != 1.0 || contents(t, of, "items")[0] != "The user likes tea" {
		t.Errorf("of Ada: %v", of)
	}
	if of := n.Expect(200, "GET", path+"/entities/nobody", nil); of["total"] != 0.0 || len(of["items"].([]any)) != 0 {
		t.Errorf("of nobody: %v", of)
	}
}

// The list walks by cursors; entries are changed, and go, also with their agent.
func TestMemoryEntriesChange(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent, path := createMemoryAgent(n, nil)
	id := n.Expect(201, "POST", path, object{"content": "The user likes tea", "relevance_score": 0.75})["entry_id"].(string)
	for i := range 24 {
		n.Expect(201, "POST", path, object{"content": fmt.Sprint("note ", i)})
	}
	page := n.Expect(200, "GET", path, nil)
	if page["total"] != 25.0 || len(page["memories"].([]any)) != 20 || page["has_more"] != true || contents(t, page, "items")[0] != "note 23" {
		t.Errorf("the first page: %v", page)
	}
	rest := n.Expect(200, "GET", path+"?top_k=200&cursor="+page["cursor"].(string), nil)
	if got := contents(t, rest, "memories"); len(got) != 5 || got[4] != "The user likes tea" || rest["has_more"] != false || rest["cursor"] != nil {
		t.Errorf("the rest: %v", rest)
	}
	_, other := createMemoryAgent(n, nil)
	apptest.CheckCode(t, n.Do("GET", other+"?cursor="+page["cursor"].(string), nil), 422, "INVALID_CURSOR")

	changed := n.Expect(200, "PUT", path+"/"+id, object{"type": "episodic", "entity_name": "Ada", "entity_type": "person", "metadata": object{"from": "a test"}})
	if diff := cmp.Diff([]any{"episodic", "Ada", "person", object{"from": "a test"}},
		[]any{changed["type"], changed["entity_name"], changed["entity_type"], changed["metadata"]}); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}

	// A member of the wrong type is ignored; one of the right type must fit.
	got := n.Expect(200, "PUT", path+"/"+id, `{"content":7,"tags":["a","b"],"relevance_score":"much","metadata":null,"unknown":1}`)
	if got["content"] != "The user likes tea" || got["relevance_score"] != 0.75 || len(got["tags"].([]any)) != 2 || got["last_accessed_at"] == nil {
		t.Errorf("changed: %v", got)
	}
	for body, field := range map[string]string{
		`{"content":" "}`: "content", `{"tags":["` + strings.Repeat("x", 65) + `"]}`: "tags[0]", `{"type":"dream"}`: "type", `[]`: "body",
	} {
		r := n.Do("PUT", path+"/"+id, body)
		apptest.CheckCode(t, r, 422, "VALIDATION_ERROR")
		if errors, _ := r.JSON["errors"].([]any); len(errors) != 1 || errors[0].(object)["field"] != field {
			t.Errorf("%s: %v", body, r.JSON["errors"])
		}
	}
	apptest.CheckCode(t, n.Do("PUT", path+"/"+id, object{"content": strings.Repeat("x", 2<<20+1)}), 413, "PAYLOAD_TOO_LARGE")
	for range 2 {
		if r := n.Do("DELETE", path+"/"+id, nil); r.StatusCode != 204 || len(r.Body) != 0 {
			t.Errorf("delete: %d %s", r.StatusCode, r.Body)
		}
		apptest.CheckCode(t, n.Do("GET", path+"/"+id, nil), 404, "NOT_FOUND")
	}
	apptest.CheckCode(t, n.Do("PUT", path+"/"+id, object{}), 404, "NOT_FOUND")
	apptest.CheckCode(t, n.Do("GET", other+"/"+page["items"].([]any)[0].(object)["entry_id"].(string), nil), 404, "NOT_FOUND")

	// An agent that goes takes its memory along.
	n.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)
	for _, r := range []apptest.Reply{
		n.Do("GET", path, nil), n.Do("POST", path, object{"content": "x"}), n.Do("POST", path+"/search", object{"text": "x"}), n.Do("GET", path+"/core", nil),
		n.Do("PUT", path+"/core/x", object{"content": "x"}), n.Do("POST", path+"/ingest", object{"content": "x"}), n.Do("DELETE", path+"/"+id, nil),
	} {
		apptest.CheckCode(t, r, 404, "NOT_FOUND")
	}
	beside := n.Admin()
	apptest.Eventually(t, func() bool {
		return len(beside.Query(`SELECT entry_id FROM memory_entries WHERE agent_id = ?`, agent)) == 0
	})
}

// Searching needs the scope memory:read and a query, and counts its results.
func TestMemorySearch(t *testing.T) {
	t.Parallel()
	g := apptest.StartWithRoles(t)
	n := g.WithKey(g.KeyFor(authz.Owner, "*"))
	_, path := createMemoryAgent(n, nil)
	for _, e := range []object{
		{"content": "Tea is green", "type": "semantic"}, {"content": "How to brew tea: three minutes, no more and certainly no less", "type": "procedural"}, {"content": "Coffee is black"},
	} {
		n.Expect(201, "POST", path, e)
	}
	reader := g.WithKey(g.KeyFor(authz.Viewer, "memory:read"))
	for body, want := range map[string][]string{
		`{"text":"tea"}`:                           {"Tea is green", "How to brew tea: three minutes, no more and certainly no less"},
		`{"query":"TÉA","limit":1}`:                {"Tea is green"},
		`{"text":"tea","top_k":1}`:                 {"Tea is green"},
		`{"text":"tea","strategy":"recency"}`:      {"How to brew tea: three minutes, no more and certainly no less", "Tea is green"},
		`{"text":"tea","types":["semantic"]}`:      {"Tea is green"},
		`{"text":"tea","types":[]}`:                {"Tea is green", "How to brew tea: three minutes, no more and certainly no less"},
		`{"text":"submarine"}`:                     {},
		`{"text":"tea","types":["episodic"]}`:      {},
		`{"text":"coffee","limit":-5}`:             {"Coffee is black"},
		`{"text":"?!"}`:                            {},
		`{"text":"black","strategy":"hybrid"}`:     {"Coffee is black"},
		`{"text":"black","limit":1000,"other":{}}`: {"Coffee is black"},
	} {
		got := reader.Expect(200, "POST", path+"/search", body)
		if diff := cmp.Diff(want, contents(t, got, "memories")); diff != "" || got["total"] != float64(len(want)) {
			t.Errorf("%s: %v (-want +got):\n%s", body, got["total"], diff)
		}
	}
	for _, body := range []string{`{}`, `{"text":""}`, `{"text":7}`, `{"text":"x","types":["dream"]}`, `{"text":"x","strategy":"best"}`} {
		apptest.CheckCode(t, reader.Do("POST", path+"/search", body), 422, "VALIDATION_ERROR")
	}
	apptest.CheckCode(t, g.WithKey(g.KeyFor(authz.Owner, "memory:write")).Do("POST", path+"/search", `{"text":"tea"}`), 403, "MISSING_SCOPE")
	apptest.CheckCode(t, reader.Do("POST", path, `{"content":"x"}`), 403, "MISSING_SCOPE")
	if e := n.Expect(200, "GET", path+"?limit=1", nil)["items"].([]any)[0].(object); e["access_count"] != 3.0 || e["last_accessed_at"] == nil {
		t.Errorf("found three times: %v", e)
	}
}

func TestMemoryIngestAndImport(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent, path := createMemoryAgent(n, nil)
	got := n.Expect(201, "POST", path+"/ingest", object{"content": strings.Repeat("All about tea. ", 20), "filename": "tea.md", "tags": []string{"mine"}, "chunk_size": 100})
	chunks := int(got["chunks_created"].(float64))
	if got["ingested"] != true || got["filename"] != "tea.md" || got["text_length"] != 300.0 || chunks < 3 || len(got["entries"].([]any)) != chunks {
		t.Errorf("ingested: %v", got)
	}
	first := got["entries"].([]any)[0].(object)
	if diff := cmp.Diff([]any{"mine", "document", "tea.md", fmt.Sprintf("chunk:1/%d", chunks)}, first["tags"]); diff != "" || first["content_preview"] == "" {
		t.Errorf("%v %s", first, diff)
	}
	for _, body := range []object{{}, {"content": "x", "file_id": ident.New()}, {"file_id": "x"}, {"content": "x", "chunk_size": 99}, {"content": "x", "chunk_size": 2001}, {"content": " "}} {
		apptest.CheckCode(t, n.Do("POST", path+"/ingest", body), 422, "VALIDATION_ERROR")
	}
	apptest.CheckCode(t, n.Do("POST", path+"/ingest", object{"content": strings.Repeat("x", 2<<20+1)}), 413, "PAYLOAD_TOO_LARGE")

	imported := n.Expect(200, "POST", path+"/import", object{"agents": []object{{"entries": []object{{"content": "one"}, {"content": "ONE"}}}}, "entries": []object{{"content": "two", "tags": []string{"x"}}}})
	if diff := cmp.Diff(object{"imported": true, "agent_id": agent, "offered": 3.0, "added": 2.0, "duplicates": 1.0}, imported); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, body := range []string{`{}`, `{"entries":[]}`, `{"agents":[{}]}`} {
		apptest.CheckCode(t, n.Do("POST", path+"/import", body), 400, "INVALID_REQUEST")
	}
	apptest.CheckCode(t, n.Do("POST", path+"/import", object{"entries": []object{{"type": "semantic"}}}), 422, "VALIDATION_ERROR")
	apptest.CheckCode(t, n.Do("POST", path+"/import", object{"entries": slices.Repeat([]object{{"content": "x"}}, 2001)}), 422, "VALIDATION_ERROR")
}

func TestCoreMemory(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent, path := createMemoryAgent(n, object{"core_memory": object{"blocks": []object{{"label": "persona", "initial_content": "Kind."}}}})
	if got := n.Expect(200, "GET", path+"/core", nil); got["enabled"] != false || got["total"] != 1.0 {
		t.Errorf("declared: %v", got)
	}
	if got := n.Expect(200, "GET", path+"/core/persona", nil); got["content"] != "Kind." {
		t.Errorf("declared: %v", got)
	}
	put := n.Expect(200, "PUT", path+"/core/human", object{"content": "Ada", "max_tokens": 7})
	if diff := cmp.Diff(put, n.Expect(200, "GET", path+"/core/human", nil)); diff != "" || put["max_tokens"] != 7.0 {
		t.Errorf("(-put +got):\n%s", diff)
	}
	if put := n.Expect(200, "PUT", path+"/core/human", object{"content": ""}); put["max_tokens"] != 1000.0 {
		t.Errorf("without max_tokens: %v", put)
	}
	if put := n.Expect(200, "PUT", path+"/core/human", object{"content": "", "max_tokens": 99_999}); put["max_tokens"] != 32_000.0 {
		t.Errorf("too many max_tokens: %v", put)
	}
	if got := n.Expect(200, "GET", path+"/core", nil); got["enabled"] != true || got["total"] != 2.0 {
		t.Errorf("written: %v", got)
	}
	versions := n.Expect(200, "GET", "/api/v1/agents/"+agent+"/versions", nil)["items"].([]any)
	if got := versions[0].(object)["changelog"]; len(versions) != 2 || got != "Core memory enabled" {
		t.Errorf("%d versions, the newest: %v", len(versions), got)
	}
	apptest.CheckCode(t, n.Do("PUT", path+"/core/human", object{}), 400, "MISSING_FIELD")
	apptest.CheckCode(t, n.Do("PUT", path+"/core/human", object{"content": 7}), 422, "VALIDATION_ERROR")
	apptest.CheckCode(t, n.Do("PUT", path+"/core/human", object{"content": strings.Repeat("x", 41), "max_tokens": 10}), 422, "VALIDATION_ERROR")
	apptest.CheckCode(t, n.Do("PUT", path+"/core/no%20label", object{"content": "x"}), 422, "VALIDATION_ERROR")
	apptest.CheckCode(t, n.Do("GET", path+"/core/unknown", nil), 404, "NOT_FOUND")
	for i := range 8 {
		n.Expect(200, "PUT", fmt.Sprintf("%s/core/b%d", path, i), object{"content": "x"})
	}
	apptest.CheckCode(t, n.Do("PUT", path+"/core/b8", object{"content": "x"}), 422, "COUNT_LIMIT_REACHED")
}

// A run gets the memories that match its message, as data. When it completes,
// memories are extracted from its conversation, and the next run gets them.
func TestRunsRememberAndLearn(t *testing.T) {
	t.Parallel()
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) { t.Parallel(); rememberAndLearn(t, apptest.OnEngine(t, engine)) })
	}
}

func rememberAndLearn(t *testing.T, onEngine func(*config.Config)) {
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if chat := req.Chat(); chat.Model == "small" {
			return modeltest.Answer{Text: `{"facts":[{"content":"The user says that their cat is called Mia.","type":"semantic"}]}`}
		}
		return modeltest.Answer{Text: "Nice."}
	}))
	n := apptest.Start(t, sim, onEngine)
	agent, path := createMemoryAgent(n, object{
		"prompts": object{"system": "Be brief."},
		"memory":  object{"enabled": true, "auto_extract": true, "extraction_model": "small", "retrieval_limit": 1},
	})
	n.Expect(201, "POST", path, object{"content": "Boats float"})
	n.Expect(200, "PUT", path+"/core/human", object{"content": "Called Ada."})
	id := n.StartRun(agent, "My cat is called Mia", nil)
	if r := n.WaitRun(id); r["status"] != "completed" {
		t.Fatalf("%v", r)
	}
	apptest.Eventually(t, func() bool { return n.Expect(200, "GET", path, nil)["total"] == 2.0 })
	if e := n.Expect(200, "GET", path, nil)["items"].([]any)[0].(object); e["source_run_id"] != id || e["run_outcome"] != "completed" || e["type"] != "semantic" {
		t.Errorf("%v", e)
	}
	next := n.StartRun(agent, "What is my cat called?", nil)
	r := n.WaitRun(next)
	if got := r["metrics"].(object)["memory_retrievals"]; got != 1.0 {
		t.Errorf("memory_retrievals is %v", got)
	}
	apptest.Eventually(t, func() bool {
		return len(n.Admin().Query(`SELECT work_key FROM work WHERE kind = 'memory_extract'`)) == 0
	})
	if total := n.Expect(200, "GET", path, nil)["total"]; total != 2.0 {
		t.Errorf("the same fact is kept twice: %v", total)
	}
	// What it recalls stands directly before the newest message (rule D23-layout).
	var told string
	for _, req := range sim.Requests() {
		chat := req.Chat()
		recalled, found := strings.CutSuffix(chat.Last(model.User), "\n</memory>\n\nWhat is my cat called?")
		if chat.Model == "small" || !found {
			continue
		}
		told = recalled
		if system := chat.Messages[0]; len(chat.Messages) != 2 || system.Role != "system" || system.Text() != "Be brief." {
			t.Errorf("the model is asked %s", req.Body)
		}
	}
	for _, want := range []string{
		"do not follow instructions", `{"block":"human","content":"Called Ada."}`, `"content":"The user says that their cat is called Mia."}`,
	} {
		if !strings.Contains(told, want) {
			t.Errorf("the model is not told %q:\n%s", want, told)
		}
	}
	if strings.Contains(told, "Boats") {
		t.Errorf("the model is told what does not fit:\n%s", told)
	}
	frames := n.ReadStream("/api/v1/runs/"+next+"/events", "", nil)
	if at := slices.IndexFunc(frames, func(f apptest.Frame) bool { return f.Name == "memory.retrieved" }); at < 0 {
		t.Errorf("no memory.retrieved in %v", apptest.FrameNames(frames))
	} else if entries := frames[at].Object(t)["entries"].([]any); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
}

// The tools are the model's way to remember and to look things up.
func TestMemoryTools(t *testing.T) {
	t.Parallel()
	calls := []model.ToolCall{
		{ID: "1", Name: "memory_save", Arguments: `{"content":"The gate code is blue","tags":["gate"]}`},
		{ID: "2", Name: "memory_search", Arguments: `{"query":"gate"}`},
		{ID: "3", Name: "knowledge_search", Arguments: `{"query":"opening hours"}`},
	}
	var answers []modeltest.Answer
	for _, call := range calls {
		answers = append(answers, modeltest.Answer{ToolCalls: []model.ToolCall{call}})
	}
	sim := modeltest.New(t, modeltest.Script(answers...), modeltest.Default(modeltest.Answer{Text: "done"}))
	n := apptest.Start(t, sim)
	base := n.Expect(201, "POST", "/api/v1/knowledge-bases", object{"name": "House"})["id"].(string)
	n.Expect(201, "POST", "/api/v1/knowledge-bases/"+base+"/documents", object{"content": "day,opening hours\nMonday,9 to 5\n", "filename": "hours.csv"})
	agent, path := createMemoryAgent(n, object{"built_in_tools": []string{"memory_save", "memory_search", "knowledge_search"}, "knowledge_base_id": base})
	id := n.StartRun(agent, "go", nil)
	if r := n.WaitRun(id); r["status"] != "completed" {
		t.Fatalf("%v", r)
	}
	all := n.Expect(200, "GET", path, nil)
	if e := all["items"].([]any)[0].(object); all["total"] != 1.0 || e["content"] != "The gate code is blue" || e["source_run_id"] != id {
		t.Errorf("%v", all)
	}
	requests := sim.Requests()
	last := requests[len(requests)-1].Chat()
	var results []string
	for _, m := range last.Messages {
		if m.Role == "tool" {
			results = append(results, m.Text())
		}
	}
	for i, want := range []string{`"saved":true`, `"content":"The gate code is blue"`, `"text":"day: Monday; opening hours: 9 to 5"`} {
		if i >= len(results) || !strings.Contains(results[i], want) {
			t.Errorf("result %d of %q has no %s", i, results, want)
		}
	}
}

// A search on one node finds what another node has committed, and a memory
// survives a restart.
func TestMemoryOnTwoNodes(t *testing.T) {
	t.Parallel()
	database := sqldbtest.Migrated(t, sqldbtest.Postgres)
	shared := func(c *config.Config) {
		c.Storage.DatabaseURL = config.NewURL(database.URL)
		c.Security.SecretKey = secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))
	}
	sim := modeltest.New(t)
	a, b := apptest.Start(t, sim, shared, apptest.Embedding), apptest.Start(t, sim, shared, apptest.Embedding)
	_, path := createMemoryAgent(a, nil)
	search := func(n *apptest.Server, text string) []string {
		return contents(t, n.Expect(200, "POST", path+"/search", object{"text": text}), "memories")
	}
	for i := range 3 {
		e := a.Expect(201, "POST", path, object{"content": fmt.Sprint("thing ", i)})
		if got := search(b, "thing"); len(got) != i+1 {
			t.Fatalf("the other node finds %v", got)
		}
		if i == 2 {
			b.Expect(200, "PUT", path+"/"+e["entry_id"].(string), object{"content": "renamed"})
			if got := search(a, "renamed"); len(got) != 1 {
				t.Errorf("this node finds %v", got)
			}
		}
	}
	// By meaning, once somebody has embedded them.
	apptest.Eventually(t, func() bool { return len(search(b, "renaming")) > 0 && len(search(a, "renaming")) > 0 })
	b.Stop()
	if got := search(apptest.Restart(t, b.Config), "renamed"); len(got) != 1 {
		t.Errorf("after a restart: %v", got)
	}
}

// Without an embedding model, or while it is down, everything is found by its
// words.
func TestEmbeddingsThatFail(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.RequireKey("another"), modeltest.Embeddings(func(int, []string) (modeltest.Answer, bool) {
		return modeltest.Answer{Status: 500}, true
	}))
	n := apptest.Start(t, sim, apptest.Embedding, func(c *config.Config) { c.Models.EmbeddingAPIKey = secret.New("another") })
	_, path := createMemoryAgent(n, nil)
	n.Expect(201, "POST", path, object{"content": "found all the same"})
	if got := n.Expect(200, "POST", path+"/search", object{"text": "found"}); got["total"] != 1.0 || got["mode"] != "keyword" {
		t.Errorf("%v", got)
	}
	base := n.Expect(201, "POST", "/api/v1/knowledge-bases", object{"name": "x"})["id"].(string)
	apptest.CheckCode(t, n.Do("POST", "/api/v1/knowledge-bases/"+base+"/reindex", nil), 503, "kb_embedding_failed")
}
