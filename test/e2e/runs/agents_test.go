package runs

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
)

// wholeAgent sets every field that a client can set.
const wholeAgent = `{"name":"whole","description":"d","model":{"provider":"openai_compat","model_ref":"m","endpoint_url":"https://models.example.com/v1",` +
	`"api_key_ref":"ref","capabilities":{"tools":true}},"fallback_model":{"provider":"custom","model_ref":"builtin/echo","capabilities":{}},"model_retry":{"max_elapsed_ms":60000},` +
	`"prompts":{"system":"s","developer":"v"},"mcp":{"servers":[]},"policies":{"cancel_on_disconnect":true},"skills":[{"id":"k"}],` +
	`"thinking":{"mode":"fixed"},"effort_policy":{"plan":"low"},"resource_limits":{"max_duration_ms":1,"max_steps":2,"max_tool_calls":3,"max_tokens_per_run":4},` +
	`"memory":{"enabled":true},"core_memory":{"enabled":true},"guardrails":{"input":[]},"approval_required_tools":["calculator"],"built_in_tools":["calculator","current_time"],` +
	`"image_generation":{"provider":"x"},"knowledge_base_id":"kb","execution_mode":"worker","worker_reuse":true,` +
	`"schedule":{"cron":"0 * * * *"},"a2a":{"enabled":false},"risk_classification":{"level":"minimal"},"workspace_id":"ws",` +
	`"context_strategy":"sliding_window","context_window_size":7,"metadata":{"a":{"b":1}}}`

// createWholeAgent is wholeAgent with a knowledge base and a workspace that are there.
func createWholeAgent(n *apptest.Server) string {
	n.T.Helper()
	id := n.Expect(201, "POST", apptest.KnowledgeBasesPath, object{"name": "kb"})["id"].(string)
	workspace := n.Expect(201, "POST", "/api/v1/workspaces", object{"name": "ws"})["workspace_id"].(string)
	return strings.NewReplacer(`"knowledge_base_id":"kb"`, `"knowledge_base_id":"`+id+`"`, `"workspace_id":"ws"`, `"workspace_id":"`+workspace+`"`).Replace(wholeAgent)
}

// Every field of an agent is stored and returned.
func TestAgentFields(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	whole := createWholeAgent(n)
	sent := apptest.ParseObject(t, whole)
	made := n.Expect(201, "POST", "/api/v1/agents", whole)
	for name, want := range sent {
		if diff := cmp.Diff(want, made[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, name := range []string{"agent_id", "tenant_id", "created_at", "updated_at", "version"} {
		if text, _ := made[name].(string); text == "" {
			t.Errorf("%s is %v", name, made[name])
		}
	}
	if diff := cmp.Diff(made, n.Expect(200, "GET", "/api/v1/agents/"+made["agent_id"].(string), nil)); diff != "" {
		t.Errorf("read again:\n%s", diff)
	}
	if diff := cmp.Diff(made, n.Expect(200, "GET", "/api/v1/agents", nil)["items"].([]any)[0]); diff != "" {
		t.Errorf("listed:\n%s", diff)
	}

	least := n.Expect(201, "POST", "/api/v1/agents", object{"name": "least"})
	want := apptest.ParseObject(t, `{"name":"least","description":"","model":{"provider":"custom","model_ref":"builtin/echo","capabilities":{}},"fallback_model":null,"model_retry":null,"model_settings":null,`+
		`"access_control":null,"auto_approve_tools":[],"autonomy":null,"bridge":null,"command_relationships":null,"knowledge_base_ids":[],"public_config":null,`+
		`"specs":[],"tool_overrides":[],"visibility":"private",`+
		`"prompts":{},"mcp":{},"policies":{},"skills":[],"thinking":null,"effort_policy":null,"resource_limits":null,"memory":null,"core_memory":null,"guardrails":null,`+
		`"approval_required_tools":[],"built_in_tools":[],"image_generation":null,"knowledge_base_id":null,"execution_mode":"async","worker_reuse":false,`+
		`"schedule":null,"a2a":null,"outcome":null,"risk_classification":null,"workspace_id":null,"context_strategy":"compaction","context_window_size":20,"metadata":{},`+
		`"version":"1","status":"active"}`)
	for _, name := range []string{"agent_id", "tenant_id", "created_at", "updated_at"} {
		delete(least, name)
	}
	if diff := cmp.Diff(want, least); diff != "" {
		t.Errorf("the defaults (-want +got):\n%s", diff)
	}
	for field, values := range map[string][]any{
		"execution_mode": {"cloud", "", "ASYNC", 1}, "context_strategy": {"none", "", nil, true}, "context_window_size": {0, -1, 1.5, "20"},
		"name": {"", nil, strings.Repeat("x", 201), 7}, "model": {object{"provider": "openai"}, "gpt", []string{}}, "worker_reuse": {"true", 1},
	} {
		for _, value := range values {
			if value == nil && field != "name" {
				continue // null is the default
			}
			body := object{"name": "x"}
			body[field] = value
			apptest.CheckCode(t, n.Do("POST", "/api/v1/agents", body), 422, "VALIDATION_ERROR")
		}
	}
}

// What the server sets cannot be set.
func TestAgentFieldsOfTheServer(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	mine := `"agent_id":"` + ident.New() + `","tenant_id":"t","created_at":"2001-01-01T00:00:00Z","updated_at":"x","version":"99","status":"suspended","status_reason":"r"`
	made := n.Expect(201, "POST", "/api/v1/agents", `{"name":"x",`+mine+`}`)
	path := "/api/v1/agents/" + made["agent_id"].(string)
	if strings.Contains(mine, made["agent_id"].(string)) || made["tenant_id"] == "t" || made["version"] != "1" || made["status"] != "active" || made["status_reason"] != nil {
		t.Errorf("made: %v", made)
	}
	changed := n.Expect(200, "PATCH", path, `{`+mine+`}`)
	for _, name := range []string{"agent_id", "tenant_id", "created_at", "status"} {
		if changed[name] != made[name] {
			t.Errorf("%s became %v", name, changed[name])
		}
	}
}

// PUT and PATCH of an agent merge (behaviours of updates): fields that are not
// sent stay, null clears, some objects merge one level deep.
func TestAgentUpdates(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	for _, method := range []string{"PUT", "PATCH"} {
		t.Run(method, func(t *testing.T) {
			whole := createWholeAgent(n)
			before := n.Expect(201, "POST", "/api/v1/agents", whole)
			path := "/api/v1/agents/" + before["agent_id"].(string)
			after := n.Expect(200, method, path, `{"description":"new","prompts":{"system":"t"},"skills":[],"metadata":{"c":2},"resource_limits":{"max_steps":9,"max_tool_calls":null},`+
				`"memory":{"types":["note"]},"thinking":{"effort":"low"},"knowledge_base_id":null,"fallback_model":null,"execution_mode":null,"zz":1}`)
			want := apptest.ParseObject(t, whole)
			maps.Copy(want, apptest.ParseObject(t, `{"description":"new","prompts":{"system":"t"},"skills":[],"metadata":{"a":{"b":1},"c":2},`+
				`"resource_limits":{"max_duration_ms":1,"max_steps":9,"max_tokens_per_run":4},"memory":{"enabled":true,"types":["note"]},"thinking":{"effort":"low"},`+
				`"knowledge_base_id":null,"fallback_model":null,"execution_mode":"async"}`))
			for name, value := range want {
				if diff := cmp.Diff(value, after[name]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
			if diff := cmp.Diff(after, n.Expect(200, "GET", path, nil)); diff != "" {
				t.Errorf("read again:\n%s", diff)
			}
			apptest.CheckCode(t, n.Do(method, path, `{"name":null}`), 422, "VALIDATION_ERROR")
			apptest.CheckCode(t, n.Do(method, path, `{"execution_mode":"x","name":""}`), 422, "VALIDATION_ERROR")
			if diff := cmp.Diff(after, n.Expect(200, "GET", path, nil)); diff != "" {
				t.Errorf("a refused update changed:\n%s", diff)
			}
			for _, id := range []string{"x", ident.New()} {
				apptest.CheckCode(t, n.Do(method, "/api/v1/agents/"+id, `{}`), 404, "NOT_FOUND")
			}
		})
	}
}

// Every change is a version that can be compared and gone back to.
func TestAgentVersions(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	path := "/api/v1/agents/" + n.CreateAgent(object{"name": "one", "metadata": object{"k": 1}})
	n.Expect(200, "PATCH", path, object{"name": "two", "prompts": object{"system": "s"}})
	made := n.Expect(201, "POST", path+"/versions", object{"changelog": "by hand"})
	if made["version"] != 3.0 || made["changelog"] != "by hand" || made["config"].(object)["name"] != "two" {
		t.Errorf("the snapshot: %v", made)
	}
	if bare := n.Expect(201, "POST", path+"/versions", nil); bare["version"] != 4.0 {
		t.Errorf("a snapshot without a body: %v", bare)
	}

	list := n.Expect(200, "GET", path+"/versions", nil)
	var numbers []float64
	for _, item := range list["items"].([]any) {
		v := item.(object)
		numbers = append(numbers, v["version"].(float64))
		for _, name := range []string{"version_id", "agent_id", "tenant_id", "changelog", "created_at", "created_by", "config"} {
			if v[name] == nil {
				t.Errorf("version %v has no %s", v["version"], name)
			}
		}
	}
	if diff := cmp.Diff([]float64{4, 3, 2, 1}, numbers); diff != "" || list["total"] != 4.0 {
		t.Errorf("newest first:\n%s", diff)
	}
	if diff := cmp.Diff(list["items"], list["versions"]); diff != "" {
		t.Errorf("the older name of the list:\n%s", diff)
	}
	short := n.Expect(200, "GET", path+"/versions?fields=summary", nil)["items"].([]any)[0].(object)
	if _, has := short["config"]; has {
		t.Error("a summary has configurations")
	}

	diff := n.Expect(200, "GET", path+"/versions/2/diff", nil)
	want := apptest.ParseObject(t, `{"version_from":1,"version_to":2,"changed_fields":["name","prompts"],`+
		`"diff":{"name":{"from":"one","to":"two"},"prompts":{"from":{},"to":{"system":"s"}}}}`)
	want["agent_id"] = diff["agent_id"]
	if d := cmp.Diff(want, diff); d != "" {
		t.Errorf("the difference (-want +got):\n%s", d)
	}
	if turned := n.Expect(200, "GET", path+"/versions/1/diff?compare_to=2", nil); turned["version_from"] != 2.0 || turned["version_to"] != 1.0 {
		t.Errorf("turned round: %v", turned)
	}
	if same := n.Expect(200, "GET", path+"/versions/3/diff", nil); len(same["changed_fields"].([]any)) != 0 {
		t.Errorf("equal ones: %v", same)
	}
	for _, number := range []string{"0", "1", "9", "-1", "x", "1.0", "9223372036854775808"} { // 1 has none before it
		apptest.CheckCode(t, n.Do("GET", path+"/versions/"+number+"/diff", nil), 404, "NOT_FOUND")
	}
	apptest.CheckCode(t, n.Do("GET", path+"/versions/2/diff?compare_to=x", nil), 400, "INVALID_QUERY")

	back := n.Expect(200, "POST", path+"/rollback", object{"version": 1})
	if back["version"] != 5.0 || back["changelog"] != "Rollback to version 1" {
		t.Errorf("the rollback: %v", back)
	}
	now := n.Expect(200, "GET", path, nil)
	if now["name"] != "one" || now["version"] != "5" || len(now["prompts"].(object)) != 0 {
		t.Errorf("after it: %v", now)
	}
	apptest.CheckCode(t, n.Do("POST", path+"/rollback", object{"version": 99}), 404, "NOT_FOUND")
	// A run keeps to the version that it names.
	run := n.Expect(202, "POST", "/api/v1/runs", object{"agent_id": now["agent_id"], "version": 2, "input": object{"message": "x"}})
	if run["agent_version"] != 2.0 {
		t.Errorf("the run's version: %v", run["agent_version"])
	}
}

// suspend and activate move an agent between its two states.
func TestAgentStates(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	path := "/api/v1/agents/" + n.CreateAgent(nil)
	conflict := func(action, state string) {
		t.Helper()
		r := n.Do("POST", path+"/"+action, nil)
		apptest.CheckCode(t, r, 409, "INVALID_STATE_TRANSITION")
		if !strings.Contains(fmt.Sprint(r.JSON["detail"]), state) {
			t.Errorf("the detail does not name the state %s: %s", state, r.Body)
		}
	}
	conflict("activate", "active")
	got := n.Expect(200, "POST", path+"/suspend", object{"reason": "a holiday"})
	if got["status"] != "suspended" || got["status_reason"] != "a holiday" || got["status_reason_code"] != "manual" || got["status_changed_at"] == nil {
		t.Errorf("suspended: %v", got)
	}
	conflict("suspend", "suspended")
	n.Expect(200, "PATCH", path, object{"description": "changed while suspended"})
	got = n.Expect(200, "POST", path+"/activate", nil)
	if got["status"] != "active" || got["status_reason"] != nil {
		t.Errorf("active again: %v", got)
	}
	n.Expect(200, "POST", path+"/suspend", nil)
	for _, action := range []string{"suspend", "activate"} {
		apptest.CheckCode(t, n.Do("POST", "/api/v1/agents/"+ident.New()+"/"+action, nil), 404, "NOT_FOUND")
	}
}

// A conditional write (If-Match) applies to the version that its caller saw, or
// not at all.
func TestConditionalWrites(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	for kind, made := range map[string]apptest.Reply{
		"/api/v1/agents/":             n.Do("POST", "/api/v1/agents", object{"name": "x"}),
		"/api/v1/commerce/customers/": n.Do("POST", "/api/v1/commerce/customers", object{"name": "x"}),
	} {
		id, ok := made.JSON["agent_id"].(string)
		if !ok {
			id = made.JSON["id"].(string)
		}
		path := kind + id
		first := made.Header.Get("ETag")
		if got := n.Do("GET", path, nil).Header.Get("ETag"); got != first || len(first) < 3 || first[0] != '"' {
			t.Errorf("%s: ETag is %q when made, %q when read", kind, first, got)
		}
		name := func(s string) object { return object{"name": s} }
		second := n.Do("PATCH", path, name("y"), "If-Match", first)
		if second.StatusCode != 200 || second.Header.Get("ETag") == first {
			t.Fatalf("%s: %d %q", kind, second.StatusCode, second.Header.Get("ETag"))
		}
		for _, match := range []string{first, `"x"`, `W/` + first, "x", `"", ` + first, `""`, strings.Trim(second.Header.Get("ETag"), `"`) + "0"} {
			for _, method := range []string{"PUT", "PATCH", "DELETE"} {
				if method == "PUT" && !strings.Contains(kind, "agents") {
					continue // customers have none
				}
				r := n.Do(method, path, name("stale"), "If-Match", match)
				apptest.CheckCode(t, r, 412, "PRECONDITION_FAILED")
				if want := second.Header.Get("ETag"); r.JSON["current_etag"] != want && r.JSON["current_etag"] != strings.Trim(want, `"`) {
					t.Errorf("current_etag is %v, want %s", r.JSON["current_etag"], want)
				}
			}
		}
		if got := n.Expect(200, "GET", path, nil)["name"]; got != "y" {
			t.Errorf("%s: a refused write made the name %v", kind, got)
		}
		n.Expect(200, "PATCH", path, name("z"), "If-Match", "*")
		n.Expect(200, "PATCH", path, name("z"))
		last := n.Do("GET", path, nil).Header.Get("ETag")
		n.Expect(200, "DELETE", path, nil, "If-Match", `"other", `+last)
	}
}
