package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/agent"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/memstore"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

const (
	path = "/api/v1/agents"
	item = path + "/{agentId}"
)

// bench is agents over a backend, and a client of theirs.
type bench struct {
	resourcetest.Client
	agents *agent.Agents
	deps   resource.Deps
}

func newBench(backend resource.Backend, writer txn.Writer) bench {
	deps, _ := resourcetest.Deps(backend, writer)
	agents := agent.New(deps, options)
	return bench{resourcetest.NewClient(agents.Routes()), agents, deps}
}

func inMemory() bench {
	s := memstore.New()
	return newBench(s, s)
}

// do calls an operation on an agent and gives the decoded answer.
func (b bench) do(t *testing.T, method, below, id, body string, more ...string) map[string]any {
	t.Helper()
	object, err := b.try(t, method, below, id, body, more...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, below, err)
	}
	return object
}

func (b bench) try(t *testing.T, method, below, id, body string, more ...string) (map[string]any, error) {
	t.Helper()
	args := resourcetest.Args{"agentId": id, "": body}
	for i := 0; i < len(more); i += 2 {
		args[more[i]] = more[i+1]
	}
	reply, err := b.Do(t.Context(), method, item+below, args)
	if err != nil {
		return nil, err
	}
	return resourcetest.Object(t, reply), nil
}

func (b bench) create(t *testing.T, body string) string {
	t.Helper()
	reply, err := b.Do(t.Context(), "POST", path, resourcetest.Args{"": body})
	if err != nil {
		t.Fatal(err)
	}
	return resourcetest.Object(t, reply)["agent_id"].(string)
}

// history returns "number changelog" of every version, newest first.
func (b bench) history(t *testing.T, id string) []string {
	t.Helper()
	list := b.do(t, "GET", "/versions", id, "")
	if diff := cmp.Diff(list["items"], list["versions"]); diff != "" {
		t.Error(diff)
	}
	var lines []string
	for _, v := range list["items"].([]any) {
		v := v.(map[string]any)
		lines = append(lines, fmt.Sprintf("%v %v", v["version"], v["changelog"]))
	}
	if list["total"] != float64(len(lines)) || list["has_more"] != nil || list["cursor"] != nil {
		t.Errorf("total %v of %d, has_more %v, cursor %v", list["total"], len(lines), list["has_more"], list["cursor"])
	}
	return lines
}

func onEach(t *testing.T, test func(*testing.T, bench)) {
	t.Helper()
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(t, newBench(resourcesql.New(db), db)) })
}

func TestVersions(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.create(t, `{"name":"one","built_in_tools":["calculator"],"metadata":{"a":1,"b":2}}`)
		b.do(t, "PATCH", "", id, `{"name":"two","metadata":{"b":null}}`)
		b.do(t, "POST", "/suspend", id, `{"reason":"tired"}`)
		b.do(t, "PUT", "", id, `{"description":"d"}`)
		b.do(t, "POST", "/versions", id, `{"changelog":"mine"}`)
		b.do(t, "POST", "/versions", id, ``)
		want := []string{
			"5 Manual snapshot", "4 mine", "3 Auto-versioned after update", "2 Auto-versioned after update", "1 Initial version",
		}
		if diff := cmp.Diff(want, b.history(t, id)); diff != "" {
			t.Error(diff)
		}
		v := b.do(t, "POST", "/rollback", id, `{"version":1}`)
		config := v["config"].(map[string]any)
		if v["version"] != 6.0 || v["changelog"] != "Rollback to version 1" || v["agent_id"] != id || config["name"] != "one" ||
			v["created_by"] != b.Who.UserID || !ident.Valid(v["version_id"].(string)) {
			t.Errorf("rolled back to %v", v)
		}
		a := b.do(t, "GET", "", id, "")
		if a["name"] != "one" || a["description"] != "" || a["version"] != "6" || a["status"] != "suspended" ||
			!cmp.Equal(a["metadata"], any(map[string]any{"a": 1.0, "b": 2.0})) {
			t.Errorf("after the rollback: %v", a)
		}
		for _, body := range []string{`{"version":77}`, `{"version":7}`} {
			_, err := b.try(t, "POST", "/rollback", id, body)
			resourcetest.WantFault(t, err, fault.NotFound, "")
		}
		if got := b.history(t, id); len(got) != 6 {
			t.Errorf("refused rollbacks left versions: %v", got)
		}
	})
}

func TestDiff(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.create(t, `{"name":"one","metadata":{"a":1,"b":{"x":1,"y":2}},"policies":{"n":12345678901234567890}}`)
		b.do(t, "PATCH", "", id, `{"name":"two","metadata":{"b":{"y":2,"x":1}},"workspace_id":"w"}`)
		b.do(t, "PATCH", "", id, `{"policies":{"n":12345678901234567891}}`)
		got := b.do(t, "GET", "/versions/{versionNum}/diff", id, "", "versionNum", "2")
		want := map[string]any{
			"agent_id": id, "version_from": 1.0, "version_to": 2.0, "changed_fields": []any{"name", "workspace_id"},
			"diff": map[string]any{
				"name":         map[string]any{"from": "one", "to": "two"},
				"workspace_id": map[string]any{"from": nil, "to": "w"},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		got = b.do(t, "GET", "/versions/{versionNum}/diff", id, "", "versionNum", "1", "compare_to", "3")
		if diff := cmp.Diff([]any{"name", "policies", "workspace_id"}, got["changed_fields"]); diff != "" || got["version_from"] != 3.0 {
			t.Errorf("%v %s", got, diff)
		}
		for _, numbers := range [][]string{{"1", ""}, {"9", ""}, {"2", "9"}, {"0", ""}, {"-1", "1"}} {
			_, err := b.try(t, "GET", "/versions/{versionNum}/diff", id, "", "versionNum", numbers[0], "compare_to", numbers[1])
			resourcetest.WantFault(t, err, fault.NotFound, "")
		}
	})
}

// TestVersionsOfDrift has the stored configuration change behind the versions'
// back: the next update records it first.
func TestVersionsOfDrift(t *testing.T) {
	t.Parallel()
	b := inMemory()
	id := b.create(t, `{"name":"one"}`)
	err := b.deps.Writer.Write(t.Context(), func(tx txn.Tx) error {
		doc, err := b.deps.Backend.LockTx(tx, "agent", b.Who.TenantID, id)
		if err != nil {
			return err
		}
		doc.Version++
		doc.Body = []byte(strings.Replace(string(doc.Body), `"one"`, `"drifted"`, 1))
		return b.deps.Backend.PutTx(tx, doc, doc.Version-1)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.do(t, "PATCH", "", id, `{"name":"two"}`)
	want := []string{"3 Auto-versioned after update", "2 Auto-versioned before update", "1 Initial version"}
	if diff := cmp.Diff(want, b.history(t, id)); diff != "" {
		t.Error(diff)
	}
	if v, err := b.agents.GetVersion(t.Context(), b.Who.TenantID, id, 2); err != nil || !strings.Contains(string(v.Config), "drifted") {
		t.Errorf("version 2 is %s, %v", v.Config, err)
	}
}

func TestSuspendAndActivate(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.create(t, `{"name":"x"}`)
		_, err := b.try(t, "POST", "/activate", id, "")
		e := resourcetest.WantFault(t, err, fault.Conflict, "INVALID_STATE_TRANSITION")
		if !strings.Contains(e.Detail, "active") {
			t.Errorf("the refusal does not name the state: %s", e.Detail)
		}
		a := b.do(t, "POST", "/suspend", id, `{"reason":"too loud"}`)
		if a["status"] != "suspended" || a["status_reason"] != "too loud" || a["status_reason_code"] != "manual" || a["status_changed_at"] == nil || a["version"] != "1" {
			t.Errorf("suspended as %v", a)
		}
		_, err = b.try(t, "POST", "/suspend", id, "")
		resourcetest.WantFault(t, err, fault.Conflict, "INVALID_STATE_TRANSITION")
		a = b.do(t, "POST", "/activate", id, "")
		if a["status"] != "active" || a["status_reason"] != nil || a["status_reason_code"] != nil || a["status_changed_at"] == nil {
			t.Errorf("activated as %v", a)
		}
		if got := b.history(t, id); len(got) != 1 {
			t.Errorf("moves wrote versions: %v", got)
		}
	})
}

func TestGetIsFresh(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.create(t, `{"name":"one"}`)
		for _, name := range []string{"one", "one", "two"} {
			if name == "two" {
				b.do(t, "PATCH", "", id, `{"name":"two"}`)
			}
			g, err := b.agents.Get(t.Context(), b.Who.TenantID, id)
			if err != nil || g.Name != name || g.ID != id || g.TenantID != b.Who.TenantID {
				t.Errorf("read as %+v, %v; want %s", g, err, name)
			}
		}
		for _, who := range []string{ident.New(), ""} {
			if _, err := b.agents.Get(t.Context(), who, id); !fault.Is(err, fault.NotFound) {
				t.Errorf("tenant %q: %v", who, err)
			}
		}
		b.do(t, "DELETE", "", id, "")
		if _, err := b.agents.Get(t.Context(), b.Who.TenantID, id); !fault.Is(err, fault.NotFound) {
			t.Errorf("after the deletion: %v", err)
		}
	})
}

func TestWorkspaceFilter(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.create(t, `{"name":"in","workspace_id":"w\u0001"}`)
		b.create(t, `{"name":"out","workspace_id":"v"}`)
		b.create(t, `{"name":"none"}`)
		reply, err := b.Do(t.Context(), "GET", path, resourcetest.Args{"workspace_id": "w\x01"})
		if err != nil {
			t.Fatal(err)
		}
		items := resourcetest.Object(t, reply)["items"].([]any)
		if len(items) != 1 || items[0].(map[string]any)["agent_id"] != in {
			t.Errorf("the workspace has %v", items)
		}
	})
}

func TestDefaultModel(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	deps, _ := resourcetest.Deps(s, s)
	o := options
	o.DefaultModel = func() agent.ModelConfig {
		return agent.ModelConfig{Provider: "openai_compat", ModelRef: "default/big", EndpointURL: "https://models.example.com/v1"}
	}
	agents := agent.New(deps, o)
	b := bench{resourcetest.NewClient(agents.Routes()), agents, deps}
	id := b.create(t, `{"name":"x"}`)
	got := b.do(t, "GET", "", id, "")["model"]
	want := map[string]any{"provider": "openai_compat", "model_ref": "default/big", "endpoint_url": "https://models.example.com/v1", "capabilities": map[string]any{}}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Error(diff)
	}
	// Naming a model takes nothing from the default one.
	id = b.create(t, `{"name":"x","model":{"provider":"openai_compat","model_ref":"m"}}`)
	b.do(t, "PATCH", "", id, `{"name":"y"}`)
	b.do(t, "POST", "/rollback", id, `{"version":1}`)
	got = b.do(t, "GET", "", id, "")["model"]
	want = map[string]any{"provider": "openai_compat", "model_ref": "m", "capabilities": map[string]any{}}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Error(diff)
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, r := range inMemory().Routes {
		ids = append(ids, r.ID)
		want := "agents:write"
		if r.Method == "GET" {
			want = "agents:read"
		}
		if len(r.Scopes) != 1 || string(r.Scopes[0]) != want || (r.Role != "") != (r.Method != "GET") {
			t.Errorf("%s needs %v and role %q", r.ID, r.Scopes, r.Role)
		}
	}
	slices.Sort(ids)
	want := []string{
		"activateAgent", "createAgent", "createAgentVersion", "deleteAgent", "getAgent", "getAgentVersionDiff", "listAgentVersions",
		"listAgents", "patchAgent", "rollbackAgent", "suspendAgent", "terminateAgent", "updateAgent",
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Error(diff)
	}
}
