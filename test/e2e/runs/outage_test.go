package runs

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// longOutages makes the tests below wait as long as real outages last.
var longOutages = os.Getenv("AGENTD_TEST_OUTAGES") != ""

// A provider that is down for 1 and 10 seconds (120 with AGENTD_TEST_OUTAGES) under
// 100 runs from 16 clients: no run fails, no answer that arrived is asked for again,
// and all are done soon after its return, within its limit (rule D22-passing).
func TestProviderOutage(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	outages := []time.Duration{time.Second, 10 * time.Second}
	if longOutages {
		outages = append(outages, 2*time.Minute)
	}
	for _, fault := range []string{"refused", "503", "broken"} {
		for _, lasts := range outages {
			if fault != "503" && lasts == 10*time.Second && !longOutages {
				continue // the schedule of tries is the same
			}
			t.Run(fmt.Sprintf("%s/%v", fault, lasts), func(t *testing.T) {
				t.Parallel()
				providerOutage(t, fault, lasts)
			})
		}
	}
}

func providerOutage(t *testing.T, fault string, lasts time.Duration) {
	const runs, clients, rounds, limit = 100, 16, 2, 20
	const takes = 100 * time.Millisecond
	var down atomic.Bool
	var answered, refused, broken atomic.Int64
	var busy inFlight
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		a := modeltest.ToolRounds(rounds, modeltest.Answer{Text: "All of it is done."})(req)
		a.TTFT = takes
		switch {
		case !down.Load():
			answered.Add(1)
			busy.begin(takes) // the others end at once
		case fault == "broken":
			refused.Add(1)
			if a.Text != "" {
				broken.Add(1)
				a.BreakAfter = 2
			} else {
				return modeltest.Answer{Text: "All of it", BreakAfter: 1}
			}
		default:
			refused.Add(1)
			return modeltest.Answer{Status: 503, Error: "overloaded"}
		}
		return a
	}))
	line := newRelay(t, strings.TrimSuffix(strings.TrimPrefix(sim.URL, "http://"), "/v1"))
	n := apptest.Start(t, sim, func(c *config.Config) {
		c.Models.BaseURL, c.Models.MaxConcurrency = "http://"+line.address+"/v1", limit
	})
	agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
	var back time.Time
	over := make(chan struct{})
	go func() {
		defer close(over)
		<-time.After(300 * time.Millisecond)
		if down.Store(true); fault == "refused" {
			line.down()
		}
		<-time.After(lasts)
		if back = time.Now(); fault == "refused" {
			line.up()
		}
		down.Store(false)
	}()
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(runs)
	for range clients {
		all.Go(func() {
			var ids []string
			for left.Add(-1) >= 0 {
				ids = append(ids, n.StartRun(agent, "Go.", nil))
			}
			for _, id := range ids {
				for r := (object{}); r["status"] != "completed"; <-time.After(20 * time.Millisecond) {
					if r = n.Expect(200, "GET", "/api/v1/runs/"+id, nil); r["status"] != "running" && r["status"] != "queued" && r["status"] != "completed" {
						t.Errorf("run %s is %v: %v", id, r["status"], r["error"])
						break
					}
				}
				steps := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
				if len(steps) != 2*rounds+1 {
					t.Errorf("run %s has %d steps, want %d", id, len(steps), 2*rounds+1)
				}
			}
		})
	}
	all.Wait()
	<-over
	if got, most := answered.Load(), int64(runs*(rounds+1)); got < most || fault == "503" && got > most {
		t.Errorf("%d answers for %d steps: some were paid for twice", got, most)
	}
	if most := busy.most(); most > limit {
		t.Errorf("%d calls at a time, of %d", most, limit)
	}
	if fault != "refused" && refused.Load() == 0 {
		t.Error("no call met the outage")
	}
	t.Logf("%v after its return all runs were done; %d calls failed, %d in the middle of their answer",
		time.Since(back).Round(time.Millisecond), refused.Load(), broken.Load())
}

// inFlight counts calls that are under way.
type inFlight struct {
	mu       sync.Mutex
	now, max int
}

func (f *inFlight) begin(takes time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now++
	f.max = max(f.max, f.now)
	time.AfterFunc(takes*9/10, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.now--
	})
}

func (f *inFlight) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.max = f.now
}

func (f *inFlight) most() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.max
}

// A PostgreSQL that is away for 10 seconds (60 with AGENTD_TEST_OUTAGES) while calls
// are under way: each result is stored when it is back, and no call is made twice.
// Reads are answered 503 meanwhile (rule D22-finished-call).
func TestDatabaseOutage(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	const runs, rounds = 20, 2
	lasts := 10 * time.Second
	if longOutages {
		lasts = time.Minute
	}
	database := sqldbtest.Config(t, sqldbtest.Postgres)
	var answered atomic.Int64
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		answered.Add(1)
		a := modeltest.ToolRounds(rounds, modeltest.Answer{Text: "Done."})(req)
		a.TTFT = time.Second
		return a
	}))
	host, url := throughRelay(t, database.URL)
	line := newRelay(t, host)
	n := apptest.Start(t, sim, apptest.SharedSecretKey, func(c *config.Config) { c.Storage.DatabaseURL = config.NewURL(url(line.address)) })
	agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
	var ids []string
	for range runs {
		ids = append(ids, n.StartRun(agent, "Go.", nil))
	}
	<-time.After(500 * time.Millisecond)
	line.down()
	<-time.After(lasts / 2)
	if r := n.Do("GET", "/api/v1/runs/"+ids[0], nil); r.StatusCode != 503 {
		t.Errorf("a read is answered %d while the database is away: %s", r.StatusCode, r.Body)
	}
	<-time.After(lasts / 2)
	line.up()
	for _, id := range ids {
		if r := n.WaitRun(id); r["status"] != "completed" {
			t.Errorf("run %s is %v: %v", id, r["status"], r["error"])
		}
		if steps := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any); len(steps) != 2*rounds+1 {
			t.Errorf("run %s has %d steps", id, len(steps))
		}
	}
	if got, want := answered.Load(), int64(runs*(rounds+1)); got != want {
		t.Errorf("%d answers for %d steps: some were lost, or paid for twice", got, want)
	}
}
