package app_test

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// process is agentd as a process of its own, which can be killed.
type process struct {
	*node
	bin  string
	env  []string
	addr string
	cmd  *exec.Cmd
}

func buildProcess(t *testing.T, sim *modeltest.Server) *process {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "agentd")
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/agentd").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return newProcess(t, bin, sim)
}

// newProcess is one more of a program that is built.
func newProcess(t *testing.T, bin string, sim *modeltest.Server, env ...string) *process {
	t.Helper()
	addr := freeAddress(t)
	p := &process{bin: bin, addr: addr, node: &node{t: t, url: "http://" + addr, key: ownerKey}, env: append(append(os.Environ(), env...),
		"AGENTD_RATE_LIMITS=off", "AGENTD_LISTEN="+addr, "AGENTD_DATA_DIR="+t.TempDir(), "AGENTD_OWNER_KEY="+ownerKey,
		"AGENTD_MODEL_BASE_URL="+sim.URL, "AGENTD_MODEL=sim-model", "AGENTD_LOG_LEVEL=error")}
	t.Cleanup(p.kill)
	return p
}

// freeAddress is one that nothing listens on at this moment.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start runs the process until it answers.
func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(p.bin, "serve")
	p.cmd.Env = p.env
	var log strings.Builder
	p.cmd.Stderr = &log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", p.addr); err == nil {
			c.Close()
			return
		}
	}
	p.kill()
	p.t.Fatalf("agentd does not answer:\n%s", log.String())
}

// kill ends the process at once, as a power cut would.
func (p *process) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// kill -9 at any moment, start again, and every accepted run ends properly:
// no committed step changes, none is made twice, no event is lost.
func TestKillNine(t *testing.T) {
	t.Parallel()
	heavy(t)
	if testing.Short() {
		t.Skip("builds and kills the program")
	}
	const rounds = 10 // 21 steps
	kills := 12
	if n, err := strconv.Atoi(os.Getenv("AGENTD_TEST_KILLS")); err == nil {
		kills = n
	}
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		a := modeltest.ToolRounds(rounds, modeltest.Answer{Text: modeltest.Tokens(10)})(req)
		a.TTFT, a.Delay = 5*time.Millisecond, 2*time.Millisecond
		return a
	}))
	p := buildProcess(t, sim)
	p.start()
	agent := p.agent(object{"built_in_tools": []string{"calculator"}})
	var ids []string
	committed := map[string]map[float64]string{} // run, seq: step id
	seen := 0                                    // of ids, the first that may not have ended
	var slowest time.Duration
	for life := range kills {
		ids = append(ids, p.run(agent, "Go.", nil))
		<-time.After(time.Duration(7+13*life%61) * time.Millisecond)
		for _, id := range ids[seen:] {
			if committed[id] == nil {
				committed[id] = map[float64]string{}
			}
			for _, s := range p.want(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any) {
				if st := s.(object); st["status"] != "running" {
					committed[id][st["seq"].(float64)] = st["step_id"].(string)
				}
			}
		}
		for seen < len(ids) && len(committed[ids[seen]]) == 2*rounds+1 {
			seen++
		}
		p.kill()
		killed := time.Now()
		p.start()
		if life%10 == 0 { // the newest was under way, and goes on at once
			p.stream("/api/v1/runs/"+ids[len(ids)-1]+"/events", "", func(f frame) bool { return f.name == "run.resumed" || f.name == "done" })
			slowest = max(slowest, time.Since(killed))
		}
	}
	t.Logf("%d kills; a run went on %v after one at the latest", kills, slowest)
	if slowest > 5*time.Second {
		t.Errorf("a run went on only %v after the kill", slowest)
	}
	for _, id := range ids {
		r := p.ended(id)
		if r["status"] != "completed" || r["output"].(object)["text"] != modeltest.Tokens(10) {
			t.Errorf("run %s is %v, %v: %v", id, r["status"], r["output"], r["error"])
		}
		steps := p.want(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
		if len(steps) != 2*rounds+1 {
			t.Errorf("run %s has %d steps, want %d", id, len(steps), 2*rounds+1)
		}
		for _, s := range steps {
			st := s.(object)
			if was, ok := committed[id][st["seq"].(float64)]; ok && was != st["step_id"] {
				t.Errorf("run %s: step %v was made again", id, st["seq"])
			}
			if strings.Contains(fmt.Sprint(st["output"]), "interrupted") {
				t.Errorf("run %s: a read-only call was not repeated", id)
			}
		}
		last := 0
		frames := p.stream("/api/v1/runs/"+id+"/events", "", nil)
		for _, f := range frames[:len(frames)-2] {
			var seq int
			if _, err := fmt.Sscan(f.id, &seq); err != nil || seq <= last {
				t.Errorf("run %s: %s follows %d", id, f, last)
			}
			last = seq
		}
		if got := names(frames[len(frames)-2:]); got[0] != "done" || got[1] != "[DONE]" {
			t.Errorf("run %s ends with %v", id, got)
		}
	}
}

// A run whose node dies goes on at another one, once the lease has run out.
func TestKillNineElsewhere(t *testing.T) {
	t.Parallel()
	heavy(t)
	if testing.Short() {
		t.Skip("waits for a lease to run out")
	}
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		a := modeltest.ToolRounds(10, modeltest.Answer{Text: "Done."})(req)
		a.TTFT = 20 * time.Millisecond
		return a
	}))
	database := sqldbtest.Config(t, sqldbtest.Postgres)
	shared := []string{"AGENTD_DATABASE_URL=" + database.URL, "AGENTD_SECRET_KEY=" + base64.StdEncoding.EncodeToString(make([]byte, 32))}
	a := buildProcess(t, sim)
	a.env = append(a.env, shared...)
	a.start()
	b := newProcess(t, a.bin, sim, shared...)
	agent := a.agent(object{"built_in_tools": []string{"calculator"}})
	id := a.run(agent, "Go.", nil)
	a.stream("/api/v1/runs/"+id+"/events", "", func(f frame) bool { return f.name == "tool.result" })
	before := a.want(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
	b.start()
	a.kill()
	killed := time.Now()
	b.stream("/api/v1/runs/"+id+"/events", "", func(f frame) bool { return f.name == "run.resumed" || f.name == "done" })
	took := time.Since(killed)
	t.Logf("the run went on %v after the kill", took)
	if took > 35*time.Second {
		t.Errorf("the run went on only %v after the kill", took)
	}
	if r := b.ended(id); r["status"] != "completed" {
		t.Errorf("the run is %v: %v", r["status"], r["error"])
	}
	after := b.want(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
	for i, s := range before {
		if was, is := s.(object), after[i].(object); was["status"] != "running" && was["step_id"] != is["step_id"] {
			t.Errorf("step %v was made again", was["seq"])
		}
	}
}
