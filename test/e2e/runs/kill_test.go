package runs

import (
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// kill -9 at any moment, start again, and every accepted run ends properly:
// no committed step changes, none is made twice, no event is lost.
func TestKillNine(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
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
	p := apptest.BuildProcess(t, sim)
	p.Start()
	agent := p.CreateAgent(object{"built_in_tools": []string{"calculator"}})
	var ids []string
	committed := map[string]map[float64]string{} // run, seq: step id
	seen := 0                                    // of ids, the first that may not have ended
	var slowest time.Duration
	for life := range kills {
		ids = append(ids, p.StartRun(agent, "Go.", nil))
		<-time.After(time.Duration(7+13*life%61) * time.Millisecond)
		for _, id := range ids[seen:] {
			if committed[id] == nil {
				committed[id] = map[float64]string{}
			}
			for _, s := range p.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any) {
				if st := s.(object); st["status"] != "running" {
					committed[id][st["seq"].(float64)] = st["step_id"].(string)
				}
			}
		}
		for seen < len(ids) && len(committed[ids[seen]]) == 2*rounds+1 {
			seen++
		}
		p.Kill()
		killed := time.Now()
		p.Start()
		if life%10 == 0 { // the newest was under way, and goes on at once
			p.ReadStream("/api/v1/runs/"+ids[len(ids)-1]+"/events", "", func(f apptest.Frame) bool { return f.Name == "run.resumed" || f.Name == "done" })
			slowest = max(slowest, time.Since(killed))
		}
	}
	t.Logf("%d kills; a run went on %v after one at the latest", kills, slowest)
	if slowest > 5*time.Second {
		t.Errorf("a run went on only %v after the kill", slowest)
	}
	for _, id := range ids {
		r := p.WaitRun(id)
		if r["status"] != "completed" || r["output"].(object)["text"] != modeltest.Tokens(10) {
			t.Errorf("run %s is %v, %v: %v", id, r["status"], r["output"], r["error"])
		}
		steps := p.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
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
		frames := p.ReadStream("/api/v1/runs/"+id+"/events", "", nil)
		for _, f := range frames[:len(frames)-2] {
			var seq int
			if _, err := fmt.Sscan(f.ID, &seq); err != nil || seq <= last {
				t.Errorf("run %s: %s follows %d", id, f, last)
			}
			last = seq
		}
		if got := apptest.FrameNames(frames[len(frames)-2:]); got[0] != "done" || got[1] != "[DONE]" {
			t.Errorf("run %s ends with %v", id, got)
		}
	}
}

// A run whose node dies goes on at another one, once the lease has run out.
func TestKillNineElsewhere(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
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
	a := apptest.BuildProcess(t, sim)
	a.Env = append(a.Env, shared...)
	a.Start()
	b := apptest.NewProcess(t, a.Program, sim, shared...)
	agent := a.CreateAgent(object{"built_in_tools": []string{"calculator"}})
	id := a.StartRun(agent, "Go.", nil)
	a.ReadStream("/api/v1/runs/"+id+"/events", "", func(f apptest.Frame) bool { return f.Name == "tool.result" })
	before := a.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
	b.Start()
	a.Kill()
	killed := time.Now()
	b.ReadStream("/api/v1/runs/"+id+"/events", "", func(f apptest.Frame) bool { return f.Name == "run.resumed" || f.Name == "done" })
	took := time.Since(killed)
	t.Logf("the run went on %v after the kill", took)
	if took > 35*time.Second {
		t.Errorf("the run went on only %v after the kill", took)
	}
	if r := b.WaitRun(id); r["status"] != "completed" {
		t.Errorf("the run is %v: %v", r["status"], r["error"])
	}
	after := b.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
	for i, s := range before {
		if was, is := s.(object), after[i].(object); was["status"] != "running" && was["step_id"] != is["step_id"] {
			t.Errorf("step %v was made again", was["seq"])
		}
	}
}

// A model call during which the program was killed five times is given up, so that
// no input can make the program die at each start.
func TestKilledAgainAndAgainInOneStep(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("builds and kills the program")
	}
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{HangFirst: true}))
	p := apptest.BuildProcess(t, sim)
	p.Start()
	id := p.StartRun(p.CreateAgent(nil), "Go.", nil)
	const deaths = 5
	for kills := range deaths {
		for sim.Calls() <= kills {
			<-time.After(10 * time.Millisecond)
		}
		p.Kill()
		p.Start()
	}
	r := p.WaitRun(id)
	if r["status"] != "failed" || r["error_code"] != "step_crashed" || sim.Calls() != deaths {
		t.Errorf("the run is %v, %v, after %d calls", r["status"], r["error_code"], sim.Calls())
	}
	if body := string(p.Do("GET", "/metrics", nil).Body); !strings.Contains(body, `agentd_steps_killed_total{type="llm"} 1`) {
		t.Error("the metric does not count the step")
	}
}
