package accounts

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/wire/smtpmail/smtptest"
)

// logbook keeps what a server logs.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text.Bytes())
}

// secretText is what one can search for.
func secretText(kind string) string {
	return kind + base64.RawURLEncoding.EncodeToString(secret.Random(24))
}

// Every kind of secret is made and used; none of them stands in a file of the
// database, in its log, in what agentd logs at the level debug, in a list or a
// setting that the API shows, or in the environment of a process that it started.
func TestSecretsAreNowhereInTheRaw(t *testing.T) {
	t.Parallel()
	box := smtptest.New(t, smtptest.Config{User: "agentd", Password: "mail-secret-of-the-test"})
	found := map[string]string{
		"owner key": apptest.OwnerKey, "master key": base64.StdEncoding.EncodeToString(secret.Random(32)), "model key": secretText("model-"),
		"search key": secretText("search-"), "mail password": "mail-secret-of-the-test", "provider key": secretText("sk-"),
		"bearer of an MCP server": secretText("bearer-"), "wrong key": secretText("svc_"),
	}
	const childs = "MCP_TOKEN"
	ofChild := secretText("child-")
	var log logbook
	n := apptest.StartLogging(t, &log, modeltest.New(t, apptest.CallTool("echo", `{"message":"hello"}`)), apptest.AllowStdioCommand(t),
		func(c *config.Config) {
			c.Mail.SMTPURL, c.Mail.From = config.NewURL("smtp://agentd:mail-secret-of-the-test@"+box.Addr), "agentd@example.org"
			c.SignIn.Signup = "on"
			c.Security.SecretKey, c.Models.APIKey = secret.New(found["master key"]), secret.New(found["model key"])
			c.Search.Provider, c.Search.APIKey = "brave", secret.New(found["search key"])
		})
	keep := func(kind string, value any) {
		t.Helper()
		text, ok := value.(string)
		if !ok || len(text) < 8 {
			t.Fatalf("%s is %v", kind, value)
		}
		found[kind] = text
	}

	keep("key", n.Expect(201, "POST", "/api/v1/tenants/me/keys", object{"name": "x"}, "Idempotency-Key", "make-a-key")["raw_key"])
	n.Expect(200, "PUT", "/api/v1/llm-credentials/mine", object{"api_key": found["provider key"], "endpoint_url": "https://example.com/v1"})
	keep("secret of a webhook", n.Expect(201, "POST", "/api/v1/webhooks", object{"url": "https://example.com/hook", "events": []string{"run.completed"}})["secret"])
	agent := n.CreateAgent(object{"name": "words-that-are-no-secret"})
	n.CreateMCPServer(object{
		"transport": "http", "url": "https://example.com/mcp", "enabled": false, "auth": object{"type": "bearer", "secret": found["bearer of an MCP server"]},
	})
	n.CreateMCPServer(object{
		"transport": "stdio", "command": apptest.StdioCommand, "assigned_agent_ids": []string{agent},
		"auth": object{"type": "api_key", "env_key": childs, "secret": ofChild},
	})
	run := n.WaitRun(n.StartRun(agent, "x", nil))
	if got := apptest.OutputText(run); got != "It says: you said hello" {
		t.Fatalf("the answer is %q", got)
	}
	shared := n.Expect(200, "POST", "/api/v1/sessions/"+n.CreateSession(agent, nil)+"/share", object{"role": "viewer"})["share_url"].(string)
	keep("link of a session", shared[strings.LastIndexAny(shared, "=/")+1:])
	invited := n.Expect(201, "POST", "/api/v1/users/invites", object{"email": "bob@example.com", "role": "viewer"})
	if link, ok := invited["invite_url"].(string); ok {
		keep("token of an invite", link[strings.LastIndex(link, "=")+1:])
	} else {
		text := box.Next(t, "bob@example.com").Text
		_, link, _ := strings.Cut(text, "token=")
		keep("token of an invite", strings.FieldsFunc(link, func(r rune) bool { return strings.ContainsRune(" \r\n&>", r) })[0])
	}
	keep("stream token", n.Expect(200, "POST", "/api/v1/auth/sse-tokens", nil)["token"])
	n.SendHeaders("GET", "/api/v1/runs/"+run["run_id"].(string)+"/events?token="+found["stream token"], "")
	n.WithKey(found["wrong key"]).Do("GET", "/api/v1/me", nil)

	b := newBrowser(n)
	code := b.mailed(box, "ann@example.com")
	b.want(200, "POST", "/api/v1/auth/verify-code", `{"email":"ann@example.com","code":"`+code+`","accept_terms":true,"accept_privacy":true}`)
	keep("browser session", b.cookies["svc_session"])
	found["code of a letter"] = code // with its space: six digits are in every clock
	enrolled := b.want(201, "POST", "/api/v1/auth/mfa/enrol", "{}")
	keep("second factor", enrolled["secret"])
	keep("recovery code", enrolled["recovery_codes"].([]any)[0])
	b.want(200, "POST", "/api/v1/auth/mfa/verify", `{"code":"`+totp(t, found["second factor"], 0)+`"}`)

	reads := 0
	for _, op := range contracttest.Operations(n) {
		if op.Method == "GET" && len(op.PathParams) == 0 && !op.Streams {
			searchRaw(t, op.ID, n.Do("GET", op.Path, nil).Body, found, ofChild)
			reads++
		}
	}
	if reads < 50 {
		t.Errorf("only %d lists and settings were read", reads)
	}
	searchRaw(t, "the log", log.bytes(), found, ofChild)
	searchRaw(t, "the environment of a child", environmentOf(t, childs+"="+ofChild), found)
	searchFiles(t, n.Config.Storage.DataDir, found, ofChild)
	if !filesHold(t, n.Config.Storage.DataDir, "words-that-are-no-secret") {
		t.Error("the search does not find what is there")
	}
	n.Stop()
	searchFiles(t, n.Config.Storage.DataDir, found, ofChild)
	searchRaw(t, "the log", log.bytes(), found, ofChild)
}

// eachFile calls f for every file of a directory.
func eachFile(t *testing.T, dir string, f func(name string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		f(d.Name(), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func searchFiles(t *testing.T, dir string, found map[string]string, more ...string) {
	t.Helper()
	eachFile(t, dir, func(name string, text []byte) { searchRaw(t, name, text, found, more...) })
}

// filesHold reports whether a file of a directory holds some words.
func filesHold(t *testing.T, dir, words string) (hold bool) {
	t.Helper()
	eachFile(t, dir, func(_ string, text []byte) { hold = hold || bytes.Contains(text, []byte(words)) })
	return hold
}

func searchRaw(t *testing.T, where string, text []byte, found map[string]string, more ...string) {
	t.Helper()
	for kind, value := range found {
		if bytes.Contains(text, []byte(value)) {
			t.Errorf("%s holds the %s", where, kind)
		}
	}
	for _, value := range more {
		if bytes.Contains(text, []byte(value)) {
			t.Errorf("%s holds the secret of a child", where)
		}
	}
}

// environmentOf returns the environment of the process that has a variable. Only
// Linux shows it.
func environmentOf(t *testing.T, variable string) []byte {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && bytes.Contains(text, []byte(variable)) {
			if bytes.Contains(text, []byte("AGENTD_")) {
				t.Errorf("the child has a variable of agentd: %q", text)
			}
			return text
		}
	}
	t.Fatal("the child is not there")
	return nil
}

// After a purge no word of the company is in a file of the database, although
// nothing was written after it that could have overwritten them.
func TestPurgedWordsLeaveTheFiles(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "unforgettable"})))
	id, acme := n.CreateTenant(object{"name": "Acme"})
	_, other := n.CreateTenant(object{"name": "Zebra"})
	other.CreateAgent(object{"name": "words-of-another"})
	for range 5 {
		agent := acme.CreateAgent(object{"name": "unforgettable", "description": strings.Repeat("unforgettable ", 300)})
		acme.WaitRun(acme.StartRun(agent, strings.Repeat("unforgettable ", 3000), nil))
		acme.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"description": "short"})
	}
	dir := n.Config.Storage.DataDir
	if !filesHold(t, dir, "unforgettable") {
		t.Fatal("the search does not find what is there")
	}
	n.Expect(200, "DELETE", apptest.TenantsPath+"/"+id, object{"confirm": "Acme"})
	beside := n.Admin()
	apptest.Eventually(t, func() bool { return len(beside.Query(`SELECT tenant_id FROM tenants WHERE tenant_id = ?`, id)) == 0 })
	if filesHold(t, dir, "unforgettable") {
		t.Error("words of a purged company are in the files of the database")
	}
	if !filesHold(t, dir, "words-of-another") {
		t.Error("words of another company are gone")
	}
}
