package commandline

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

func TestSchedulesAndMemory(t *testing.T) {
	t.Parallel()
	s := newShell(t, apptest.Start(t, nil))
	s.run(0, words("agent create --name daily"))
	s.run(0, words("schedules show daily"), "The agent has no schedule")
	s.run(0, []string{"schedules", "set", "daily", "--cron", "0 9 * * 1-5", "--timezone", "Europe/Berlin", "--message", "Report."},
		"0 9 * * 1-5", "Europe/Berlin", "Report.", "Next")
	s.run(0, words("schedules list"), "daily", "Europe/Berlin")
	s.run(1, []string{"schedules", "set", "daily", "--cron", "often"}, "Error: ")
	s.run(2, words("schedules set daily"), "these flags are needed: --cron=CRON")
	s.run(0, words("schedules delete daily"), "Removed the schedule of daily.")
	s.run(0, words("schedules list --json"), `"items": []`)

	s.run(0, words("memory list daily"), "The agent remembers nothing")
	out := s.typing("The user likes green tea.\n").run(0, words("memory add daily - --type semantic --tag drink --about Ada"), "Added entry ")
	entry := strings.TrimSuffix(strings.Fields(out)[2], ".")
	s.run(0, words("memory search daily green tea"), entry, "The user likes green tea.")
	s.run(0, words("memory list daily"), "Ada", "semantic")
	s.run(2, words("memory add daily x --type song"), "--type must be one of", "song")
	s.run(0, words("memory delete daily "+entry), "Deleted entry")
	s.run(0, words("memory search daily tea"), "Nothing was found.")
}

func TestKnowledgeBasesFromFolders(t *testing.T) {
	t.Parallel()
	s := newShell(t, apptest.Start(t, nil))
	dir := t.TempDir()
	for name, text := range map[string]string{
		"hours.csv": "day,opening hours\nMonday,9 to 5\n", "deep/rules.md": "# Rules\n\nNo smoking.", ".hidden/x.md": "secret", "empty.txt": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.run(0, words("kb create Handbook"), "Created knowledge base Handbook (")
	s.run(1, words("kb add Handbook "+dir), "rules.md, 1 chunk.", "empty.txt was not added: the file is empty", "1 of 3 files could not be added")
	s.run(0, words("kb search Handbook when do you open on monday"), "hours.csv", "9 to 5")
	questions := `{"question":"When do you open on monday?","source":"hours.csv"}
{"question":"May I smoke?","text":"No smoking"}

{"question":"Who is the owner?","source":"rules.md"}
{"question":"the of and"}
{"question":"What about smoking?"}
`
	s.typing(questions).run(0, words("kb eval Handbook -"), "Who is the owner?", "3 questions with an answer: recall@5 0.667, mean reciprocal rank 0.667",
		"2 questions without an answer: 0.500 find something")
	s.typing(questions).run(0, words("kb eval Handbook - --json --limit 1"), `"mrr": 0.66`, `"unanswered": 2`)
	s.typing(questions).run(0, words("kb eval Handbook - --min-score 1"), "recall@5 0.000", "0.000 find something")
	s.typing(questions).run(1, words("kb eval Handbook - --min-recall 0.85"), "0.667 of the questions find their answer")
	s.typing(questions).run(1, words("kb eval Handbook - --max-noise 0.1"), "0.500 of the questions without an answer find something")
	s.typing("{}").run(1, words("kb eval Handbook -"), "line 1 has no question")
	s.typing("\n[]").run(1, words("kb eval Handbook -"), "line 2 is not an object")
	s.typing(`{"question":"x","answer":"y"}`).run(1, words("kb eval Handbook -"), "line 1 is not an object", "answer")
	s.typing(" ").run(1, words("kb eval Handbook -"), "the file has no questions")
	s.run(2, words("kb eval Handbook x.jsonl --limit 0"), "--limit must be from 1 to 100")
	s.typing("Parking is free.").run(0, words("kb add Handbook - --name parking.txt"), "Added parking.txt, 1 chunk.")
	s.run(0, words("kb documents Handbook"), "parking.txt", "hours.csv")
	s.run(0, words("kb list"), "Handbook  3")
	s.run(0, words("kb add Handbook --json "+filepath.Join(dir, "hours.csv")), `"document_id"`)
	// Large files are sent as they are, not in JSON; one that cannot be read leaves nothing.
	large := func(name, begin, end string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(begin+strings.Repeat("0123456789abcdef", 9<<16)+end), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s.run(1, words("kb add Handbook "+large("broken.pdf", "%PDF-1.7\n", "")), "broken.pdf was not added", "No text can be extracted")
	if files := s.run(0, words("api GET /api/v1/files")); strings.Contains(files, "broken.pdf") {
		t.Errorf("a file that was refused is kept: %s", files)
	}
	s.run(0, words("kb add Handbook "+large("large.html", "<p>Closed on Sundays.</p><!-- ", " -->")), "Added ", "large.html, 1 chunk.")
	s.run(0, words("kb search Handbook closed on sundays"), "large.html")
	s.run(1, words("kb documents Hndbook"), `there is no knowledge base with the name "Hndbook"; did you mean "Handbook"?`)
	s.run(1, words("kb add Handbook nowhere"), "nowhere")
	s.run(2, words("kb delete Handbook"), "with all its documents?", "say --yes")
	s.run(0, words("kb delete Handbook --yes"), "Deleted knowledge base Handbook.")
	s.run(0, words("kb list"), "There are no knowledge bases.")
}

func TestKeysAndMembers(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	s := newShell(t, n)
	out := s.run(0, words("keys create ci --scopes agents:read"), "Save the key now")
	key, id := regexp.MustCompile(`svc_\S+`).FindString(out), regexp.MustCompile(`(?m)^Id +(\S+)`).FindStringSubmatch(out)[1]
	ci := s.with("AGENTD_KEY", key)
	ci.run(0, words("whoami"), "owner", "agents:read", n.URL)
	ci.run(0, words("agent list"), "There are no agents yet.")
	ci.run(1, words("agent create --name x"), "MISSING_SCOPE")
	s.run(0, words("keys list"), id, "ci", "active")
	s.run(0, words("keys revoke "+id), "Revoked key "+id)
	ci.run(1, words("whoami"), "Is AGENTD_KEY a key of this server?")

	s.run(0, words("members invite ann@example.com --role viewer"), "Invited ann@example.com as viewer.", "Link  ", "No email was sent")
	s.run(0, words("members list"), "ann@example.com", "invited", "owner")
	s.run(1, words("members remove anne@example.com --yes"), `did you mean "ann@example.com"?`)
	s.run(0, words("members remove ann@example.com --yes"), "Removed ann@example.com.")
	s.run(0, words("audit --limit 3"), "WHEN", "There are more")
	s.run(0, words("audit --since 1h --action key.created --json"), `"has_more": false`)
	s.run(2, words("audit --since yesterday"), `--since is "yesterday" and must be a time as`)
	s.run(0, words("audit list --limit 3"), "WHEN", "There are more")
	s.run(0, words("usage"), "Runs", "Tokens")
	s.run(0, words("usage --json"), `"by_model"`)
}

func TestAnyRequest(t *testing.T) {
	t.Parallel()
	s := newShell(t, apptest.Start(t, nil))
	s.run(0, words("api get agents"), `"items": []`)
	s.run(0, []string{"api", "POST", "/api/v1/agents", "-d", `{"name": "raw"}`}, `"name": "raw"`)
	s.typing(`{"name": "piped"}`).run(0, words("api POST agents -d - -H X-Request-Id:01"), `"name": "piped"`)
	s.run(0, words("api GET /health"), `"status"`)
	s.run(0, words("api GET /metrics"), "# HELP")
	s.run(1, words("api GET runs/nowhere"), `"code": "NOT_FOUND"`, "Error: ")
	s.run(2, words("api FETCH agents"), `<method> is "FETCH" and must be GET`)
	s.run(2, words("api GET agents -H nonsense"), "--header is")
}

// A test of a model says in a line each what it can do, and fails where it cannot be used
// (rule D23-models-test).
func TestModelsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(modeltest.Request) modeltest.Answer { return modeltest.Answer{Status: 401} }))
	s := newShell(t, apptest.Start(t, sim))
	s.run(0, words("models test builtin/echo"), "ok       reachable", "ok       streaming", "missing  tools", "ok       structured_output", "ok       price")
	s.run(0, words("models test builtin/echo --json"), `"usable": true`, `"check": "thinking"`)
	s.run(1, words("models test sim-model"), "ok       reachable", "failed   key", "skipped  tools", "missing  price", "cannot be used")
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	s := newShell(t, n).with("AGENTD_DATA_DIR", n.Config.Storage.DataDir)
	s.run(0, words("doctor"), "ok       database", "ok       key", "ok       clock", "warning  model", "AGENTD_MODEL_BASE_URL", "skipped  embeddings", "disk")
	s.run(0, words("doctor --json"), `"check": "clock"`, `"has_more": false`)
	s.with("AGENTD_KEY", "").run(0, words("doctor --ready"), "ok       server", "ok       database")
	s.with("AGENTD_URL", "http://127.0.0.1:1").run(1, words("doctor --ready"), "failed   server")
	s.with("AGENTD_KEY", "").run(1, words("doctor"), "failed   key", "admin key create", "1 check failed")
	s.with("AGENTD_KEY", "svc_wrong").run(1, words("doctor"), "failed   key", "AGENTD_KEY must be a key of this server.")
	s.with("AGENTD_URL", "http://127.0.0.1:1").run(1, words("doctor"), "failed   server", "agentd serve")
	s.with("AGENTD_URL", "here").run(1, words("doctor"), "failed   server", "Set AGENTD_URL")
}

// A receiver of one's own: the server posts to it, and it goes when it is no
// longer needed.
func TestWebhooksOnTheCommandLine(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil, func(c *config.Config) { c.Security.EgressAllow = "127.0.0.1/32" })
	s := newShell(t, n)
	s.run(0, words("agent create --name calc"))
	listener := s.start(words("webhooks listen --count 1 --events run.completed"))
	hooks := func() []any { return n.Expect(200, "GET", "/api/v1/webhooks", nil)["webhooks"].([]any) }
	listener.says("lasts until Ctrl-C")
	s.run(0, words("run calc hello"))
	listener.says("signature valid")
	listener.says(`"type": "run.completed"`)
	if code := <-listener.ended; code != 0 {
		t.Errorf("the listener ended with %d", code)
	}
	if got := hooks(); len(got) != 0 {
		t.Errorf("the temporary subscription is left: %v", got)
	}

	out := s.run(0, words("webhooks create http://127.0.0.1:1/ --events run.completed"), "Save the secret now")
	id := strings.Fields(out)[1]
	s.run(0, words("webhooks list"), id, "http://127.0.0.1:1/", "active")
	s.run(0, words("webhooks trigger "+id), "Sent a test event")
	s.run(0, words("run calc hello"))
	var delivery string
	until(t, "a delivery", func() bool {
		lines := strings.Split(s.run(0, words("webhooks deliveries "+id)), "\n")
		if len(lines) > 1 && lines[1] != "" {
			delivery = strings.Fields(lines[1])[0]
		}
		return delivery != ""
	})
	watcher := s.start(words("webhooks listen --count 1 --json --webhook " + id))
	watcher.says("Watching the deliveries")
	s.run(0, words("webhooks redeliver "+id+" "+delivery), "is sent again")
	watcher.says(`"body":{`)
	if code := <-watcher.ended; code != 0 {
		t.Errorf("the watcher ended with %d", code)
	}
	s.run(0, words("webhooks delete "+id), "Deleted subscription")
}

func TestListeningWhereTheServerCannotCall(t *testing.T) {
	t.Parallel()
	s := newShell(t, apptest.Start(t, nil))
	s.run(1, words("webhooks listen --count 1"), "AGENTD_EGRESS_ALLOW=127.0.0.1/32", "--callback URL", "--webhook ID")
	s.run(1, words("webhooks listen --address nowhere:x"), "--address nowhere:x cannot be listened on")
}

func TestTeams(t *testing.T) {
	t.Parallel()
	s := newShell(t, apptest.Start(t, nil))
	for _, name := range []string{"boss", "ann", "bob"} {
		s.run(0, words("agent create --name "+name))
	}
	s.run(0, words("team list"), "There are no teams. Make one:")
	s.run(1, words("team create desk --worker ann"), "supervisor")
	s.run(0, words("team create desk --topology pipeline --supervisor boss --worker ann --worker bob"), "Created team desk (", "team run desk")
	s.run(0, words("team list"), "desk  pipeline  2")
	s.run(0, words("team show desk"), "boss", "ann (worker)", "bob (worker)")
	s.run(1, words("team show desc"), `there is no team with the name "desc"`, "desk")
	s.run(0, words("team chat desk"), "Nothing was said yet.")
	s.run(0, words("team run desk hello"), "Round 1: ann begins (work, run ", "Round 2: bob has ended (completed).", "hello")
	s.run(0, words("team run desk hi --to bob --chat --json"), `"event":"team.completed"`)
	s.run(0, words("team runs desk"), "completed", "hello", "hi")
	s.run(0, words("team chat desk --internal"), "You: hello", "  ann: ", "Team: ")
	id := strings.TrimSpace(strings.Split(s.run(0, words("team run desk bye --detach")), "\n")[0])
	s.run(0, words("team cancel desk "+id), "run")
	s.run(0, words("team delete desk"), "Deleted the team desk with its runs.")
	s.run(1, words("team runs "+id), "Error: ")
}
