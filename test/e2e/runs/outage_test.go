package runs

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// A provider that is down for some seconds under 100 runs from 16 clients: no run
// fails, and no answer that arrived is asked for again (rule D22-passing).
func TestProviderOutage(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	const runs, clients, rounds = 100, 16, 2
	var down atomic.Bool
	var answered, refused atomic.Int64
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if down.Load() {
			refused.Add(1)
			return modeltest.Answer{Status: 503, Error: "overloaded"}
		}
		answered.Add(1)
		a := modeltest.ToolRounds(rounds, modeltest.Answer{Text: "Done."})(req)
		a.TTFT = 20 * time.Millisecond
		return a
	}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
	time.AfterFunc(30*time.Millisecond, func() { down.Store(true) })
	time.AfterFunc(600*time.Millisecond, func() { down.Store(false) })
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(runs)
	for range clients {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				id := n.StartRun(agent, "Go.", nil)
				r := n.WaitRun(id)
				if r["status"] != "completed" {
					t.Errorf("run %s is %v: %v", id, r["status"], r["error"])
				}
				steps := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
				if len(steps) != 2*rounds+1 {
					t.Errorf("run %s has %d steps, want %d", id, len(steps), 2*rounds+1)
				}
			}
		})
	}
	all.Wait()
	if got, want := answered.Load(), int64(runs*(rounds+1)); got != want {
		t.Errorf("%d answers for %d steps: some were paid for twice", got, want)
	}
	if refused.Load() == 0 {
		t.Error("no call met the outage")
	}
	t.Logf("%d calls were refused", refused.Load())
}
