package runs

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A node beside another one uses half of a provider's limit. When the other one was
// killed, it uses the whole, and not before a node that merely cannot reach the
// database has stopped using its share (rule D22-limits-nodes).
func TestLimitAfterTheLossOfANode(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("waits for heartbeats")
	}
	const limit, takes = 4, 200 * time.Millisecond
	var busy inFlight
	sim := modeltest.New(t, modeltest.Respond(func(modeltest.Request) modeltest.Answer {
		busy.begin(takes)
		return modeltest.Answer{Text: "Done.", TTFT: takes}
	}))
	shared := []string{
		"AGENTD_DATABASE_URL=" + sqldbtest.Config(t, sqldbtest.Postgres).URL,
		"AGENTD_SECRET_KEY=" + base64.StdEncoding.EncodeToString(make([]byte, 32)),
		fmt.Sprint("AGENTD_MODEL_MAX_CONCURRENCY=", limit),
	}
	a := apptest.BuildProcess(t, sim)
	a.Env = append(a.Env, shared...)
	a.Start()
	b := apptest.NewProcess(t, a.Program, sim, shared...)
	agent := a.CreateAgent(nil)
	// uses starts runs at a until it makes so many calls at a time, and returns how
	// long that took.
	uses := func(want int) time.Duration {
		t.Helper()
		for begun := time.Now(); ; {
			busy.reset()
			var ids []string
			for range 2 * limit {
				ids = append(ids, a.StartRun(agent, "Go.", nil))
			}
			for _, id := range ids {
				if r := a.WaitRun(id); r["status"] != "completed" {
					t.Fatalf("run %s is %v: %v", id, r["status"], r["error"])
				}
			}
			most := busy.most()
			if most > limit {
				t.Fatalf("%d calls at a time, of %d", most, limit)
			}
			if took := time.Since(begun); most == want {
				return took
			} else if took > 2*time.Minute {
				t.Fatalf("%d calls at a time after %v, want %d", most, took, want)
			}
		}
	}
	uses(limit)
	b.Start()
	uses(limit / 2)
	b.Kill()
	if took := uses(limit); took < 20*time.Second {
		t.Errorf("the share of a dead node is used after %v", took)
	} else {
		t.Logf("the share of a dead node is used after %v", took)
	}
}
