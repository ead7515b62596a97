package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/internal/goldentest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestAgentCreate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("agent.json", `{"name":"filed","description":"d","prompts":{"system":"old","developer":"dev"},"resource_limits":{"max_steps":3}}`)
	prompt := write("prompt.txt", "Be kind.\n")
	list := write("list.json", `[]`)
	unknown := write("unknown.yaml", "name: a\ntools: [calculator]\n")
	for _, tt := range []struct {
		name string
		args []string
		body string // what the server gets; empty: nothing
		says string
	}{
		{"name only", []string{"--name", "a"}, `{"name":"a"}`, ""},
		{
			"everything", []string{"--name", "a", "--description", "d", "--model", "default/llama", "--system", "Be kind.", "--tool", "calculator,current_time", "--tool", "ask_user"},
			`{"name":"a","description":"d","model":{"provider":"openai_compat","model_ref":"default/llama","capabilities":{}},
			  "prompts":{"system":"Be kind."},"built_in_tools":["calculator","current_time","ask_user"]}`, "",
		},
		{"echo", []string{"--name", "a", "--model", "builtin/echo"}, `{"name":"a","model":{"provider":"custom","model_ref":"builtin/echo","capabilities":{}}}`, ""},
		{"prompt from a file", []string{"--name", "a", "--system-file", prompt}, `{"name":"a","prompts":{"system":"Be kind."}}`, ""},
		{
			"file", []string{"--file", file},
			`{"name":"filed","description":"d","prompts":{"system":"old","developer":"dev"},"resource_limits":{"max_steps":3}}`, "",
		},
		{
			"flags win over the file", []string{"--file", file, "--name", "flagged", "--system", "new"},
			`{"name":"flagged","description":"d","prompts":{"system":"new","developer":"dev"},"resource_limits":{"max_steps":3}}`, "",
		},
		{"no name", []string{"--model", "m"}, "", "needs a name"},
		{"no such file", []string{"--file", "nowhere.json"}, "", "nowhere.json"},
		{"no object", []string{"--file", list}, "", "it must hold one agent and holds 0"},
		{"an unknown field", []string{"--file", unknown}, "", "did you mean built_in_tools?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			a.handle("POST /api/v1/agents", status(201, `{"agent_id":"`+agentID+`","name":"it's me"}`))
			r := a.shell.run(append([]string{"agent", "create"}, tt.args...)...)
			if tt.body == "" {
				if r.code == exitOK || a.count("POST") > 0 {
					t.Error("an agent was made")
				}
				r.want(t, r.code, tt.says)
				return
			}
			r.want(t, exitOK, "Created agent it's me ("+agentID+").\n", `agentd run 'it'\''s me' "Hello"`)
			body, _ := strings.CutPrefix(a.asked[1], "POST /api/v1/agents ")
			var got, want any
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tt.body), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAgentCreateForScripts(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.handle("POST /api/v1/agents", status(201, `{"agent_id":"`+agentID+`","name":"n"}`))
	if r := a.shell.run("agent", "create", "--name=n", "--id"); r.stdout != agentID+"\n" || r.stderr != "" || r.code != exitOK {
		t.Errorf("the id: %+v", r)
	}
	if r := a.shell.run("agent", "create", "--name=n", "--json"); !strings.HasPrefix(r.stdout, "{\n") || r.stderr != "" {
		t.Errorf("the agent: %+v", r)
	}
	a.shell.run("agent", "create", "--name=n", "--json", "--id").want(t, exitUsage, "can't be used together")
}

// runsAnswer is a page of runs, the first of them with all its parts.
const runsAnswer = `{"items":[
	{"run_id":"01990000-0000-7000-8000-00000000000b","agent_id":"01990000-0000-7000-8000-00000000000a","status":"completed",
	 "input":{"message":"What is\n2+2, and why would anybody want to know such a thing?"},"output":{"text":"It is 4.\n\nReally."},
	 "metrics":{"duration_ms":1500,"input_tokens":20,"output_tokens":7,"llm_calls_count":2,"total_cost_usd":0.0012},
	 "created_at":"2026-09-10T11:58:00Z","started_at":"2026-09-10T11:58:00.1Z","completed_at":"2026-09-10T11:58:01.6Z","error":null},
	{"run_id":"01990000-0000-7000-8000-00000000000c","agent_id":"01990000-0000-7000-8000-0000000000ff","status":"awaiting_approval",
	 "input":{},"created_at":"2026-09-09T09:00:00Z","started_at":"2026-09-10T10:00:00Z","completed_at":null},
	{"run_id":"01990000-0000-7000-8000-00000000000d","agent_id":"01990000-0000-7000-8000-00000000000a","status":"queued",
	 "input":{"message":"hi"},"created_at":"2026-09-10T11:59:59Z","started_at":null}
],"cursor":"next","has_more":true}`

func TestLists(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.on("GET /api/v1/runs", runsAnswer)
	for name, args := range map[string][]string{
		"agent-list":      {"agent", "list"},
		"agent-list-json": {"agent", "list", "--json"},
		"runs-list":       {"runs", "list", "--limit=3"},
		"runs-list-json":  {"runs", "list", "--limit=1", "--json"},
	} {
		r := a.shell.run(args...)
		r.want(t, exitOK)
		goldentest.Check(t, "testdata/"+name+".txt", []byte(r.stdout))
		if more := "There are more; --limit 0 lists all.\n"; r.stderr != "" && r.stderr != more {
			t.Errorf("stderr %q", r.stderr)
		}
	}
}

func TestRunsListFilters(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.on("GET /api/v1/runs", `{"items":[],"cursor":null,"has_more":false}`)
	r := a.shell.run("runs", "list", "--status=failed", "--agent=helper")
	r.want(t, exitOK, "There are no such runs.")
	if r.stdout != "" || a.count("GET /api/v1/runs?agent_id="+agentID+"&limit=51&status=failed") != 1 {
		t.Errorf("asked %v", a.asked)
	}
	if r := a.shell.run("runs", "list", "--json"); r.stdout != "{\n  \"items\": [],\n  \"has_more\": false\n}\n" || r.stderr != "" {
		t.Errorf("an empty list for a script: %+v", r)
	}
	a.on("GET /api/v1/agents", `{"items":[],"cursor":null,"has_more":false}`)
	a.shell.run("agent", "list").want(t, exitOK, "agentd agent create --name NAME")
}

func TestRunsShow(t *testing.T) {
	t.Parallel()
	var page struct {
		Items []jsontext.Value `json:"items"`
	}
	if err := json.Unmarshal([]byte(runsAnswer), &page); err != nil {
		t.Fatal(err)
	}
	a := newAPI(t)
	a.on("GET /api/v1/runs/"+runID, string(page.Items[0]))
	a.on("GET /api/v1/runs/"+runID+"/steps", `{"steps":[
		{"seq":1,"type":"llm","status":"completed","duration_ms":800,"error":null},
		{"seq":2,"type":"tool","status":"failed","duration_ms":0.4,"input":{"name":"calculator","arguments":{"expression":"2+"}},"error":"The expression is not complete."},
		{"seq":3,"type":"llm","status":"running"}],"total":3}`)
	goldentest.Check(t, "testdata/runs-show.txt", []byte(a.shell.run("runs", "show", runID).stdout))
	goldentest.Check(t, "testdata/runs-show-json.txt", []byte(a.shell.run("runs", "show", runID, "--json").stdout))

	const waiting = "01990000-0000-7000-8000-00000000000c"
	a.on("GET /api/v1/runs/"+waiting, `{"run_id":"`+waiting+`","agent_id":"x","status":"failed","error":"It broke.","error_code":"tool_error",
		"created_at":"2026-09-10T11:00:00Z","pending_approvals":[{"approval_id":"p","tool_name":"write_file","arguments":{"path":"a"}}]}`)
	a.on("GET /api/v1/runs/"+waiting+"/steps", `{"steps":[],"total":0}`)
	goldentest.Check(t, "testdata/runs-show-failed.txt", []byte(a.shell.run("runs", "show", waiting).stdout))

	a.shell.run("runs", "show", "nope").want(t, exitFailure, "There is no such thing. (NOT_FOUND, request c-1)")
}

func TestRunsCancel(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.on("POST /api/v1/runs/r1/cancel", `{"cancelled":true,"run_id":"r1"}`)
	a.on("POST /api/v1/runs/r2/cancel", `{"cancelled":false,"run_id":"r2","message":"The run had completed."}`)
	a.shell.run("runs", "cancel", "r1").want(t, exitOK, "Cancelled run r1.\n")
	a.shell.run("runs", "cancel", "r2").want(t, exitOK, "The run had completed.\n")
	a.shell.run("runs", "cancel", "r2", "--json").want(t, exitOK, `"cancelled": false`)
	a.shell.run("runs", "cancel", "r3").want(t, exitFailure, "NOT_FOUND")
}

func TestRunsFork(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.handle("POST /api/v1/runs/r1/fork", status(202, `{"run_id":"n1","status":"queued"}`))
	a.shell.run("runs", "fork", "r1", "--step", "4", "--result", "", "-d").want(t, exitOK, "n1\n", "runs follow n1")
	a.shell.run("runs", "fork", "r1", "--step", "2", "-m", "Again.", "-d", "--json").want(t, exitOK, `"run_id": "n1"`)
	a.shell.run("runs", "fork", "r1").want(t, exitUsage, "--step")
	a.shell.run("runs", "fork", "r9", "--step", "1").want(t, exitFailure, "NOT_FOUND")
	want := []string{`POST /api/v1/runs/r1/fork {"step_seq":4,"tool_result":{"content":""}}`, `POST /api/v1/runs/r1/fork {"message":"Again.","step_seq":2}`}
	if diff := cmp.Diff(want, a.asked[:2]); diff != "" {
		t.Errorf("what was sent (-want +got):\n%s", diff)
	}
}

func TestRunsContinue(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.on("POST /api/v1/runs/r1/continue", `{"continued":true,"run_id":"n1"}`)
	a.on("POST /api/v1/runs/r3/continue", `{"continued":true,"run_id":"n3"}`)
	a.on("GET /api/v1/runs", `{"items":[
		{"run_id":"r1","status":"failed","error_code":"model_error","created_at":"2099-01-01T00:00:00Z"},
		{"run_id":"r2","status":"failed","error_code":"tool_error","created_at":"2099-01-01T00:00:00Z"},
		{"run_id":"r3","status":"failed","error_code":"model_error","created_at":"2099-01-01T00:00:00Z"},
		{"run_id":"r4","status":"failed","error_code":"model_error","created_at":"2099-01-01T00:00:00Z","continued_by_run_id":"n4"},
		{"run_id":"r5","status":"failed","error_code":"model_error","created_at":"2000-01-01T00:00:00Z"}],"cursor":null,"has_more":false}`)
	a.shell.run("runs", "continue", "r1").want(t, exitOK, "Run r1 is continued by n1.\n")
	got := a.shell.run("runs", "continue", "--failed", "--since", "1h", "--code", "model_error")
	got.want(t, exitOK, "Run r1 is continued by n1.\nRun r3 is continued by n3.\n")
	a.shell.run("runs", "continue", "r1", "--json").want(t, exitOK, `"run_id": "n1"`)
	a.shell.run("runs", "continue").want(t, exitUsage, "name either a run or --failed")
	a.shell.run("runs", "continue", "r9").want(t, exitFailure, "NOT_FOUND")
}
