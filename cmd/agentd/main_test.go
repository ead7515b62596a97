package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model/modeltest"
)

// The first minute of somebody who has nothing: what the server prints is
// typed word for word, and works offline.
func TestFirstMinute(t *testing.T) {
	t.Parallel()
	server, m := newMachine(t).serve(nil)
	banner := server.out.String()
	if n := strings.Count(banner, "svc_"); n != 1 {
		t.Fatalf("the key is shown %d times:\n%s", n, banner)
	}
	_, after, _ := strings.Cut(banner, "In another terminal, in this directory:")
	var typed []string
	for line := range strings.Lines(after) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "bin/agentd ") {
			typed = append(typed, line)
		}
	}
	if len(typed) != 2 {
		t.Fatalf("the banner tells to type %q", typed)
	}
	created := m.want(0, typed[0], "Created agent hello (")
	if !strings.HasPrefix(created, "Created agent hello (") {
		t.Errorf("stdout is %q", created)
	}
	if said := m.want(0, typed[1]); !strings.Contains(said, "no language model") || !strings.HasSuffix(said, "You said: Hello\n") {
		t.Errorf("the echo says %q", said)
	}
	m.want(0, "bin/agentd agent create --name sums --tool calculator", `Talk to it:  bin/agentd run sums "Hello"`)
	m.want(0, `bin/agentd run sums "What is 6*7?"`, "→ calculator", "← calculator 42", "The calculator answered: 42\n")
	server.signal(syscall.SIGTERM)
	if code := server.wait(); code != 0 {
		t.Errorf("the server ended with %d:\n%s", code, server.errs.String())
	}
	if strings.Contains(server.errs.String(), "svc_") {
		t.Errorf("the key is in the log:\n%s", server.errs.String())
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(modeltest.ToolRounds(1, modeltest.Answer{Text: modeltest.Tokens(12)})))
	server, m := newMachine(t).serve(sim)

	m.want(0, "bin/agentd agent list", "There are no agents yet.", "bin/agentd agent create --name NAME")
	m.want(0, "bin/agentd runs list", "There are no such runs.")
	created := m.want(0, `bin/agentd agent create --name "my helper" --system "Be brief." --tool calculator`, "Created agent my helper (", `run 'my helper' "Hello"`)
	agent := regexp.MustCompile(`\((\S+)\)`).FindStringSubmatch(created)[1]
	m.want(0, "bin/agentd agent list", "NAME", "my helper  sim-model  active", agent)

	m.want(0, `bin/agentd run "my helper" Hello`, "→ calculator {\"expression\":\"6*7\"}", "← calculator 42", modeltest.Tokens(12))
	lines := strings.Split(strings.TrimSpace(m.want(0, "bin/agentd run "+agent+" Hello --json")), "\n")
	var text string
	var last event
	for _, line := range lines {
		last = event{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if last.Event == "llm.chunk" {
			text += last.Data.Text
		}
	}
	if text != modeltest.Tokens(12) || last.Event != "done" || last.Data.Status != "completed" || !strings.Contains(string(last.Data.Output), text) {
		t.Errorf("the events say %q and end with %+v", text, last)
	}

	m.want(0, "bin/agentd runs list", "my helper", "completed", "Hello")
	runs := runsListed(t, m.want(0, "bin/agentd runs list --json --agent 'my helper' --status completed"), 2)
	m.want(0, "bin/agentd runs show "+runs[0], "completed", "tok11", "STEP", "calculator")
	m.want(0, "bin/agentd runs cancel "+runs[0], "had already ended")
	m.want(0, "bin/agentd runs show --json "+runs[0], `"steps": [`)

	// What cannot be done ends with 1, what cannot be understood with 2.
	m.want(1, "bin/agentd runs show "+agent, "NOT_FOUND")
	m.want(1, "bin/agentd run nobody Hello", `no agent with the name "nobody"`, "bin/agentd agent list")
	m.want(1, "bin/agentd agent create --name x --tool hammer", "VALIDATION_ERROR", "there are calculator")
	m.want(1, "bin/agentd agent list --key svc_wrong", "AUTH_ERROR", "Is AGENTD_KEY a key of this server?")
	m.want(1, "bin/agentd agent list --url http://127.0.0.1:1", "Is agentd serve running there?")
	m.want(1, "bin/agentd serve", "another agentd serves from this data directory")
	m.want(2, "bin/agentd run x", "<message>")
	m.want(2, "bin/agentd dance", "Try: ")

	// The operator's commands, while the server runs.
	var other grant
	if err := json.Unmarshal([]byte(m.want(0, "bin/agentd admin tenant create --name Other --owner ann@example.com --json")), &other); err != nil || other.TenantID == "" || other.KeyID == "" {
		t.Fatalf("%v: %+v", err, other)
	}
	theirs := m.with("AGENTD_KEY=" + other.RawKey)
	theirs.want(0, "bin/agentd agent list", "There are no agents yet.")
	theirs.want(1, "bin/agentd run "+agent+" Hello", "NOT_FOUND")
	var viewer grant
	if err := json.Unmarshal([]byte(m.want(0, "bin/agentd admin key create --tenant "+other.TenantID+" --role viewer --scopes agents:read,agents:write --name ci --json")), &viewer); err != nil || viewer.UserID == other.UserID {
		t.Fatalf("%v: %+v", err, viewer)
	}
	reader := m.with("AGENTD_KEY=" + viewer.RawKey)
	reader.want(0, "bin/agentd agent list")
	reader.want(1, "bin/agentd agent create --name x", "FORBIDDEN")
	var again grant
	if err := json.Unmarshal([]byte(m.want(0, "bin/agentd admin key create --role owner --scopes '*' --name again --json")), &again); err != nil {
		t.Fatal(err)
	}
	m.with("AGENTD_KEY="+again.RawKey).want(0, "bin/agentd agent list", "my helper")
	m.want(0, "bin/agentd migrate --status", "of the schema; this program has")

	// A second start finds everything and tells no key.
	server.signal(syscall.SIGINT)
	if code := server.wait(); code != 0 {
		t.Errorf("the server ended with %d:\n%s", code, server.errs.String())
	}
	server, _ = m.serve(sim)
	if strings.Contains(server.out.String(), "svc_") || strings.Contains(server.out.String(), "first start") {
		t.Errorf("the second start says\n%s", server.out.String())
	}
	where := regexp.MustCompile(`API +(http://[^/]+)/`).FindStringSubmatch(server.out.String())[1]
	m.with("AGENTD_URL="+where).want(0, "bin/agentd agent list", "my helper")
}

// runsListed returns the ids of a list of runs.
func runsListed(t *testing.T, text string, want int) (ids []string) {
	t.Helper()
	var list struct {
		Items []struct {
			RunID string `json:"run_id"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Items) != want {
		t.Fatalf("%v: %s", err, text)
	}
	for _, item := range list.Items {
		ids = append(ids, item.RunID)
	}
	return ids
}

type event struct {
	Event string `json:"event"`
	Data  struct {
		Text   string         `json:"text"`
		Status string         `json:"status"`
		Output jsontext.Value `json:"output"`
	} `json:"data"`
}

type grant struct {
	TenantID string `json:"tenant_id"`
	UserID   string `json:"user_id"`
	KeyID    string `json:"key_id"`
	RawKey   string `json:"raw_key"`
}

// A model that says three tokens and then hangs: they are seen at once, and
// whoever waits can end the run in two ways.
func TestRunAsItHappens(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(10), HangAfter: 3}))
	_, m := newMachine(t).serve(sim)
	m.want(0, "bin/agentd agent create --name slow")
	const said = `"text":"tok2 "`
	for name, end := range map[string]func(*process){
		"cancel": func(*process) {
			running := runsListed(t, m.want(0, "bin/agentd runs list --status running --json"), 1)
			m.want(0, "bin/agentd runs cancel "+running[0], "Cancelled run "+running[0])
		},
		"interrupt": func(p *process) { p.signal(syscall.SIGINT) },
	} {
		p := m.start("bin/agentd run slow Hello --json")
		p.says(said)
		end(p)
		if code := p.wait(); code != 1 {
			t.Errorf("%s: exit code %d", name, code)
		}
		if !strings.Contains(p.errs.String(), "ended as cancelled") {
			t.Errorf("%s: stdout %q, stderr %q", name, p.out.String(), p.errs.String())
		}
	}
	if out := m.want(0, "bin/agentd runs list"); strings.Count(out, "cancelled") != 2 {
		t.Errorf("the runs are\n%s", out)
	}
}

// SIGTERM waits for the model's answer, and a second signal does not. SIGINT
// without a terminal is SIGTERM.
func TestSecondSignalCuts(t *testing.T) {
	t.Parallel()
	for _, first := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(first.String(), func(t *testing.T) {
			t.Parallel()
			sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "one two three", HangAfter: 1}))
			server, m := newMachine(t).serve(sim)
			m.want(0, "bin/agentd agent create --name slow")
			m.start("bin/agentd run --json slow Hello").says("one")
			server.signal(first)
			server.until(func() bool { return strings.Contains(server.errs.String(), "drain_timeout=30s") }, "drains")
			select {
			case <-server.ended:
				t.Fatal("the model call was cut off")
			case <-time.After(200 * time.Millisecond):
			}
			again := time.Now()
			server.signal(syscall.SIGINT)
			if code, took := server.wait(), time.Since(again); code != 0 || took > 20*time.Second {
				t.Errorf("the server ended with %d after %v:\n%s", code, took, server.errs.String())
			}
		})
	}
}

// A run whose model refuses is a failure for scripts too.
func TestRunThatFails(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Status: 400, Error: "no such model"}))
	_, m := newMachine(t).serve(sim)
	m.want(0, "bin/agentd agent create --name broken")
	m.want(1, "bin/agentd run broken Hello", "ended as failed", "(model_error)")
	m.want(0, "bin/agentd runs list --status failed", "broken")
}
