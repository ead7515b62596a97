package operator

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
)

// terminal is a terminal that a test has open.
type terminal struct {
	t *testing.T
	*websocket.Conn
	screen strings.Builder
}

// openTerminal opens a terminal, or returns the status with which it is refused.
func openTerminal(t *testing.T, n *apptest.Server, key, workspace, query string) (*terminal, int) {
	t.Helper()
	conn, res, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(n.URL, "http")+workspace+"/terminal"+query,
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + key}}})
	if err != nil {
		if res == nil {
			t.Fatal(err)
		}
		return nil, res.StatusCode
	}
	t.Cleanup(func() { conn.CloseNow() })
	return &terminal{t: t, Conn: conn}, 0
}

func (m *terminal) typed(text string) {
	m.t.Helper()
	if err := m.Write(m.t.Context(), websocket.MessageBinary, []byte(text)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *terminal) control(frame string) {
	m.t.Helper()
	if err := m.Write(m.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		m.t.Fatal(err)
	}
}

// frame reads until a text frame comes; nil: the connection was closed with the code.
func (m *terminal) frame() (f object, code websocket.StatusCode) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	defer cancel()
	for {
		kind, data, err := m.Read(ctx)
		if err != nil {
			return nil, websocket.CloseStatus(err)
		}
		if kind == websocket.MessageBinary {
			m.screen.Write(data)
			continue
		}
		if err := json.Unmarshal(data, &f); err != nil {
			m.t.Fatal(err)
		}
		return f, 0
	}
}

// shows reads until the screen has shown a text since the last time.
func (m *terminal) shows(text string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	defer cancel()
	for !strings.Contains(m.screen.String(), text) {
		kind, data, err := m.Read(ctx)
		if err != nil || kind != websocket.MessageBinary {
			m.t.Fatalf("%q is not shown: %v %s; the screen is %q", text, err, data, m.screen.String())
		}
		m.screen.Write(data)
	}
	_, rest, _ := strings.Cut(m.screen.String(), text)
	m.screen.Reset()
	m.screen.WriteString(rest)
}

// A terminal is a real shell at a real terminal, on a copy of the workspace's files, and it is
// bounded as commands are (rule D18-terminal).
func TestTerminal(t *testing.T) {
	apptest.SkipUnderRace(t) // whose memory is more than programs may have
	t.Parallel()
	n := apptest.Start(t, nil)
	made := func() string {
		return "/api/v1/workspaces/" + n.Expect(201, "POST", "/api/v1/workspaces", object{})["workspace_id"].(string)
	}
	workspace := made()
	n.Expect(201, "PUT", workspace+"/files?path=docs/notes.txt", "one\ntwo\n", "Content-Type", "text/plain")
	_, other := n.CreateTenant(object{"name": "Another"})
	if r := other.Do("GET", workspace+"/terminal", nil); r.StatusCode != 404 {
		t.Errorf("another company: %d %s", r.StatusCode, r.Body)
	}
	if r := n.WithScopes("files:read").Do("GET", workspace+"/terminal", nil); r.StatusCode != 403 || r.JSON["code"] == "FEATURE_DISABLED" {
		t.Errorf("a key that only reads: %d %s", r.StatusCode, r.Body)
	}
	refused := func(when string) {
		t.Helper()
		n.Do("GET", workspace+"/terminal", nil).IsProblem(t, 403, "FEATURE_DISABLED")
		if _, status := openTerminal(t, n, n.Key, workspace, ""); status != 403 {
			t.Errorf("%s: %d", when, status)
		}
	}
	refused("off")
	put(n, "run-command", object{"enabled": true, "max_timeout_sec": 20, "memory_mib": 256})
	refused("commands are on, terminals off")
	put(n, "run-command", object{"terminal_enabled": true})
	if r := n.Do("GET", workspace+"/terminal", nil); r.StatusCode == 501 {
		r.IsProblem(t, 501, "SANDBOX_UNAVAILABLE")
		t.Skip("this machine cannot confine programs")
	} else if r.StatusCode != 400 {
		t.Errorf("no WebSocket: %d %s", r.StatusCode, r.Body)
	}
	if _, status := openTerminal(t, n, n.Key, workspace, "?workdir=none"); status != 422 {
		t.Errorf("no such folder: %d", status)
	}
	if _, status := openTerminal(t, n, n.Key, workspace, "?cols=0"); status != 400 {
		t.Errorf("no columns: %d", status)
	}

	m, status := openTerminal(t, n, n.Key, workspace, "?cols=100&rows=30&workdir=docs")
	if status != 0 {
		t.Fatal(status)
	}
	m.typed("stty size; tty -s && echo a-$((1+1))-terminal\r")
	m.shows("30 100")
	m.shows("a-2-terminal")
	m.control(`{"type":"resize","cols":120,"rows":40}`)
	m.typed("stty size\r")
	m.shows("40 120")
	m.control(`{"type":"resize","cols":0,"rows":40}`)
	if f, _ := m.frame(); f["code"] != "BAD_SIZE" {
		t.Errorf("no columns: %v", f)
	}
	m.control("echo cat-$((4+4)); cat\r") // a text frame that is no control is typed
	m.shows("cat-8")
	m.typed("sleeping\r")
	m.shows("sleeping\r\nsleeping")
	m.typed("\x03")
	m.shows("$ ") // the interrupt forgets what is typed with it
	m.typed("sort -r notes.txt >sorted.txt; echo interrupted-$?\r")
	m.shows("interrupted-0")
	m.control(`{"type":"save"}`)
	if f, _ := m.frame(); f["type"] != "saved" || f["changed_files"] != 1.0 || f["deleted_files"] != 0.0 {
		t.Errorf("saved: %v", f)
	}
	if r := n.Do("GET", workspace+"/files/content?path=docs/sorted.txt", nil); string(r.Body) != "two\none\n" {
		t.Errorf("%d %s", r.StatusCode, r.Body)
	}
	m.typed("echo three >>sorted.txt; rm notes.txt; ls /var /root " + n.Config.Storage.DataDir + "; env | grep -c AGENTD; exec 3<>/dev/tcp/127.0.0.1/80; echo end-$?\r")
	m.shows("Permission denied")
	m.shows("end-1")
	m.typed("exit 7\r")
	f, _ := m.frame()
	if f["type"] != "exit" || f["exit_code"] != 7.0 || f["changed_files"] != 1.0 || f["deleted_files"] != 1.0 || f["lost"] != false {
		t.Errorf("exit: %v", f)
	}
	if _, code := m.frame(); code != websocket.StatusNormalClosure {
		t.Errorf("closed with %d", code)
	}
	if r := n.Do("GET", workspace+"/files/content?path=docs/sorted.txt", nil); string(r.Body) != "two\none\nthree\n" {
		t.Errorf("%d %s", r.StatusCode, r.Body)
	}
	n.Expect(404, "GET", workspace+"/files/content?path=docs/notes.txt", nil)
	audited := string(n.Do("GET", "/api/v1/admin/audit?limit=50", nil).Body)
	for _, want := range []string{"workspace.terminal_opened", "workspace.terminal_ended", `"exit_code":7`, `"reason":"exited"`, `"bytes_in"`} {
		if !strings.Contains(audited, want) {
			t.Errorf("the audit log has no %s: %s", want, audited)
		}
	}
	if strings.Contains(audited, "interrupted") {
		t.Error("the audit log has what was typed")
	}
}

// Terminals end with their limits: too many, a fork bomb, a client that leaves, a program that
// prints for ever, a revoked key and the operator's switch.
func TestTerminalsAreBounded(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	n := apptest.Start(t, nil)
	var workspaces []string
	for range 3 {
		workspaces = append(workspaces, "/api/v1/workspaces/"+n.Expect(201, "POST", "/api/v1/workspaces", object{})["workspace_id"].(string))
	}
	put(n, "run-command", object{"enabled": true, "terminal_enabled": true, "memory_mib": 256, "max_timeout_sec": 20})
	if n.Do("GET", workspaces[0]+"/terminal", nil).StatusCode == 501 {
		t.Skip("this machine cannot confine programs")
	}
	made := n.Expect(201, "POST", "/api/v1/tenants/me/keys", object{"name": "k", "scopes": []string{"*"}})
	var open []*terminal
	for i := range 4 {
		key := n.Key
		if i == 3 {
			key = made["raw_key"].(string)
		}
		m, status := openTerminal(t, n, key, workspaces[i/2], "")
		if status != 0 {
			t.Fatal(i, status)
		}
		open = append(open, m)
	}
	if _, status := openTerminal(t, n, n.Key, workspaces[0], ""); status != 429 {
		t.Errorf("a third in the workspace: %d", status)
	}
	if _, status := openTerminal(t, n, n.Key, workspaces[2], ""); status != 429 {
		t.Errorf("a fifth of the company: %d", status)
	}
	// A client that leaves: its files are kept, and its place is free again.
	open[0].typed("echo kept >left.txt; (trap '' HUP; sleep 1000) & echo go-$((2+2))\r")
	open[0].shows("go-4")
	open[0].CloseNow()
	apptest.Eventually(t, func() bool {
		return string(n.Do("GET", workspaces[0]+"/files/content?path=left.txt", nil).Body) == "kept\n"
	})
	// A fork bomb, and a program that prints for ever to a client that does not read: both end when the terminal is closed.
	open[1].typed("f() { f | f & }; f; echo bomb-$((3+3))\r")
	open[2].typed("yes\r")
	n.Expect(200, "GET", workspaces[1], nil)
	open[1].CloseNow()
	open[2].CloseNow()
	apptest.Eventually(t, func() bool {
		m, status := openTerminal(t, n, n.Key, workspaces[0], "")
		if status == 0 {
			open[0] = m
		}
		return status == 0
	})
	n.Expect(200, "DELETE", "/api/v1/tenants/me/keys/"+made["key_id"].(string), nil)
	if f, _ := open[3].frame(); f["type"] != "exit" {
		t.Errorf("a revoked key: %v", f)
	}
	if _, code := open[3].frame(); code != 4001 {
		t.Errorf("a revoked key is closed with %d", code)
	}
	put(n, "run-command", object{"terminal_enabled": false})
	open[0].frame()
	if _, code := open[0].frame(); code != 4003 {
		t.Errorf("switched off: %d", code)
	}
	// A server that stops takes the files over first.
	put(n, "run-command", object{"terminal_enabled": true})
	m, status := openTerminal(t, n, n.Key, workspaces[2], "")
	if status != 0 {
		t.Fatal(status)
	}
	m.typed("echo last >last.txt; echo go-$((5+5))\r")
	m.shows("go-10")
	var stopping sync.WaitGroup
	stopping.Go(n.Stop)
	defer stopping.Wait()
	if f, _ := m.frame(); f["type"] != "exit" || f["changed_files"] != 1.0 || f["lost"] != false {
		t.Errorf("the server stops: %v", f)
	}
	if _, code := m.frame(); code != websocket.StatusServiceRestart {
		t.Errorf("a server that stops closes with %d", code)
	}
}
