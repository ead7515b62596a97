package machines

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// socket is a connection of a machine.
type socket struct {
	t *testing.T
	*websocket.Conn
}

func dial(t *testing.T, url string, header http.Header, protocols ...string) socket {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(url, "http")+api+"/ws",
		&websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(4 << 20)
	return socket{t, conn}
}

func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

func (s socket) send(frame object) {
	s.t.Helper()
	text, err := json.Marshal(frame)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.Write(s.t.Context(), websocket.MessageText, text); err != nil {
		s.t.Fatal(err)
	}
}

// next returns the next frame.
func (s socket) next(kind string) object {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	_, data, err := s.Read(ctx)
	if err != nil {
		s.t.Fatalf("a frame %s: %v", kind, err)
	}
	var f object
	if err := json.Unmarshal(data, &f); err != nil || f["type"] != kind {
		s.t.Fatalf("expected a frame %s: %s (%v)", kind, data, err)
	}
	return f
}

// closed returns the code with which the server closes.
func (s socket) closed() websocket.StatusCode {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, _, err := s.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// The key comes in a header, as a subprotocol or in the first frame; then the machine
// receives tasks as they come, reports, and learns that a task is over.
func TestSockets(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := register(n, "m", nil)
	hello := object{"type": "hello", "machine_id": "m"}
	encoded := "svc." + base64.RawURLEncoding.EncodeToString([]byte(n.Key))

	first := dial(t, n.URL, nil)
	first.send(object{"type": "auth", "token": n.Key})
	first.send(hello)
	first.next("welcome")
	second := dial(t, n.URL, nil, encoded)
	if second.Subprotocol() != encoded {
		t.Errorf("the subprotocol is %q", second.Subprotocol())
	}
	second.send(hello)
	second.next("welcome")
	first.CloseNow()

	s := dial(t, n.URL, bearer(n.Key))
	s.send(hello)
	if f := s.next("welcome"); f["agent_id"] != agent {
		t.Errorf("welcome: %v", f)
	}
	id := n.StartRun(agent, "hello", nil)
	if f := s.next("task"); f["task"].(object)["task_id"] != id {
		t.Errorf("task: %v", f)
	}
	second.next("task")
	s.send(object{"type": "heartbeat"})
	s.send(object{"type": "events", "id": "r1", "task_id": id, "events": []object{{"type": "text", "content": "Hi.", "timestamp": at}}})
	if f := s.next("receipt"); f["id"] != "r1" || f["events_stored"] != 1.0 {
		t.Errorf("receipt: %v", f)
	}
	s.send(object{"type": "events", "id": "r2", "task_id": id, "events": []object{{"type": "", "timestamp": at}}})
	if f := s.next("error"); f["id"] != "r2" || f["code"] != "VALIDATION_ERROR" {
		t.Errorf("a bad report: %v", f)
	}
	s.send(object{"type": "dance"})
	s.next("error")
	n.Expect(200, "POST", "/api/v1/runs/"+id+"/cancel", nil)
	if f := s.next("cancel"); f["task_id"] != id {
		t.Errorf("cancel: %v", f)
	}

	waits := n.StartRun(agent, "waits", nil)
	s.next("task")
	s.CloseNow()
	back := dial(t, n.URL, bearer(n.Key))
	back.send(hello)
	back.next("welcome")
	if f := back.next("task"); f["task"].(object)["task_id"] != waits {
		t.Errorf("what waited: %v", f)
	}
}

// What a stranger, or a broken machine, sends is refused, with a code that says why.
func TestBadSockets(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	register(n, "m", nil)
	hello := object{"type": "hello", "machine_id": "m"}
	if _, res, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(n.URL, "http")+api+"/ws",
		&websocket.DialOptions{HTTPHeader: bearer("svc_wrongkey_0123456789abcdefghijklmnopqrstuv")}); err == nil || res.StatusCode != 401 {
		t.Errorf("a wrong key in the header: %v, %v", res, err)
	}
	n.Expect(400, "GET", api+"/ws", nil)
	n.WithScopes("agents:read").Expect(403, "GET", api+"/ws", nil)
	for _, c := range []struct {
		name   string
		key    bool
		frames []object
		want   websocket.StatusCode
	}{
		{"a wrong key", false, []object{{"type": "auth", "token": "svc_wrongkey_0123456789abcdefghijklmnopqrstuv"}}, 4001},
		{"no key", false, []object{hello}, 4001},
		{"another machine", true, []object{{"type": "hello", "machine_id": "other"}}, 4004},
		{"no greeting", true, []object{{"type": "heartbeat"}}, 4400},
		{"no type", true, []object{hello, {}}, 4400},
		{"a long frame", true, []object{hello, {"type": "events", "id": strings.Repeat("x", 1<<20+8<<10)}}, websocket.StatusMessageTooBig},
	} {
		var header http.Header
		if c.key {
			header = bearer(n.Key)
		}
		s := dial(t, n.URL, header)
		for _, f := range c.frames {
			s.send(f)
		}
		if got := s.closed(); got != c.want {
			t.Errorf("%s: closed with %d, want %d", c.name, got, c.want)
		}
	}
	s := dial(t, n.URL, bearer(n.Key))
	s.send(hello)
	s.next("welcome")
	for range 600 {
		if s.Write(t.Context(), websocket.MessageText, []byte(`{"type":"x"}`)) != nil {
			break
		}
	}
	if got := s.closed(); got != 4008 {
		t.Errorf("a machine that floods: closed with %d", got)
	}
	key := n.Expect(201, "POST", "/api/v1/tenants/me/keys", object{"name": "k", "scopes": []string{"*"}})
	s = dial(t, n.URL, bearer(key["raw_key"].(string)))
	s.send(hello)
	s.next("welcome")
	n.Expect(200, "DELETE", "/api/v1/tenants/me/keys/"+key["key_id"].(string), nil)
	if got := s.closed(); got != 4001 {
		t.Errorf("a key that was revoked: closed with %d", got)
	}
}

// A thousand machines that are connected cost the server less than 64 KiB each.
func TestThousandMachines(t *testing.T) {
	apptest.SkipUnderRace(t)
	const connections = 1000
	p := apptest.BuildProcess(t, modeltest.New(t))
	p.Start()
	register(p.Server, "m", nil)
	for range 20 { // what the first connections set up
		s := dial(t, p.URL, bearer(p.Key))
		s.send(object{"type": "hello", "machine_id": "m"})
		s.next("welcome")
		s.CloseNow()
	}
	before := resident(t, p.Command.Process.Pid)
	for range connections {
		s := dial(t, p.URL, bearer(p.Key))
		s.send(object{"type": "hello", "machine_id": "m"})
		s.next("welcome")
	}
	each := (resident(t, p.Command.Process.Pid) - before) / connections
	t.Logf("%d bytes for each machine", each)
	if each > 64<<10 {
		t.Errorf("each machine costs %d bytes", each)
	}
}

// resident returns the memory of a process, in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this system does not say what a process uses")
	}
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// Machines that the operator switches off are refused, also those that are connected, and
// come back when they are switched on.
func TestMachinesSwitchedOff(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := register(n, "m", nil)
	hello := object{"type": "hello", "machine_id": "m"}
	there := dial(t, n.URL, bearer(n.Key))
	there.send(hello)
	there.next("welcome")
	flag := func(on bool) {
		n.Expect(200, "PUT", "/api/v1/admin/config/feature-flags", object{"flags": []object{{"name": "bridge", "enabled": on}}})
	}

	flag(false)
	n.Do("GET", api+"/agents", nil).IsProblem(t, 501, "FEATURE_DISABLED")
	n.Do("GET", api+"/poll?timeout=10&agent_id="+agent, nil).IsProblem(t, 501, "FEATURE_DISABLED")
	n.Do("POST", api+"/heartbeat", object{"machine_id": "m"}).IsProblem(t, 501, "FEATURE_DISABLED")
	_, res, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(n.URL, "http")+api+"/ws", &websocket.DialOptions{HTTPHeader: bearer(n.Key)})
	if err == nil || res == nil || res.StatusCode != 501 {
		t.Errorf("connecting: %v", err)
	}
	there.send(object{"type": "heartbeat"})
	if code := there.closed(); code != websocket.StatusTryAgainLater {
		t.Errorf("the connection is closed with %d", code)
	}

	flag(true)
	id := n.StartRun(agent, "hello", nil)
	again := dial(t, n.URL, bearer(n.Key))
	again.send(hello)
	again.next("welcome")
	if f := again.next("task"); f["task"].(object)["task_id"] != id {
		t.Errorf("task: %v", f)
	}
}

// The log says which machines left, and which were let in again.
func TestMachinesInTheAuditLog(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := register(n, "m", nil)
	count := func(action string) (targets []any) {
		for _, e := range n.Expect(200, "GET", "/api/v1/admin/audit?limit=100&action="+action, nil)["entries"].([]any) {
			targets = append(targets, e.(object)["target_id"], e.(object)["details"].(object)["agent_id"])
		}
		return targets
	}
	for range 2 { // the second time nothing leaves
		n.Expect(200, "POST", api+"/deregister", object{"machine_id": "m"})
	}
	n.Expect(200, "POST", api+"/deregister", object{"machine_id": "no such machine"})
	if diff := cmp.Diff([]any{"m", agent}, count("machine.deregistered")); diff != "" {
		t.Error(diff)
	}
	n.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)
	apptest.Eventually(t, func() bool { return n.Do("DELETE", api+"/deleted-machines/m", nil).StatusCode == 204 })
	if diff := cmp.Diff([]any{"m", agent}, count("machine.forgotten")); diff != "" {
		t.Error(diff)
	}
}
