package delivery

import (
	"slices"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// feedOf reads a whole feed in pages of a size.
func feedOf(n *apptest.Server, query, limit string) (all []object) {
	for cursor := ""; ; {
		page := n.Expect(200, "GET", "/api/v1/feed?limit="+limit+query+cursor, nil)
		for _, e := range page["entries"].([]any) {
			all = append(all, e.(object))
		}
		next, more := page["cursor"].(string)
		if !more {
			return all
		}
		cursor = "&cursor=" + next
	}
}

func typesOf(entries []object) (all []string) {
	for _, e := range entries {
		all = append(all, e["event_type"].(string))
	}
	return all
}

// TestFeed shows what happened in a company, newest first and in pages of any size; by
// type, agent, team and initiative; and nothing of other companies.
func TestFeed(t *testing.T) {
	t.Parallel()
	answer := modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if req.Chat().Last("user") == "fail" {
			return modeltest.Answer{Status: 400, Error: "no"}
		}
		return modeltest.Answer{Text: "done"}
	})
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			fillFeed(t, apptest.Start(t, modeltest.New(t, answer), apptest.OnEngine(t, engine)))
		})
	}
}

func fillFeed(t *testing.T, n *apptest.Server) {
	t.Helper()
	agent, idle := n.CreateAgent(object{"name": "Ann"}), n.CreateAgent(object{"name": "Idle"})
	good, bad := n.StartRun(agent, "hello", nil), n.StartRun(agent, "fail", nil)
	n.WaitRun(good)
	n.WaitRun(bad)
	n.CreateSession(agent, nil)
	team := n.Expect(201, "POST", "/api/v1/teams", object{
		"name": "The crew", "topology": "round_robin", "supervisor_agent_id": idle, "workers": []any{object{"agent_id": agent}},
	})["team_id"].(string)
	n.Expect(202, "POST", "/api/v1/teams/"+team+"/runs", object{"message": "hello"})
	initiative := n.Expect(201, "POST", "/api/v1/initiatives", object{"name": "Grow", "mission": "Grow.", "strategist_agent_id": idle, "budget": object{"total_usd": 5, "daily_limit_usd": 1, "alert_threshold_pct": 80}})
	id := initiative["initiative_id"].(string)
	n.Expect(200, "POST", "/api/v1/initiatives/"+id+"/pause", nil)
	apptest.Eventually(t, func() bool {
		types := typesOf(feedOf(n, "", "200"))
		return slices.Contains(types, "company.paused") && slices.Contains(types, "team.round_end")
	})

	all := feedOf(n, "", "200")
	for _, limit := range []string{"1", "3"} {
		if got := feedOf(n, "", limit); len(got) != len(all) || got[len(got)-1]["feed_id"] != all[len(all)-1]["feed_id"] {
			t.Errorf("in pages of %s there are %v, in one %v", limit, typesOf(got), typesOf(all))
		}
	}
	if !slices.IsSortedFunc(all, func(a, b object) int {
		return strings.Compare(b["timestamp"].(string)[:19], a["timestamp"].(string)[:19])
	}) {
		t.Errorf("not newest first: %v", all)
	}
	for name, c := range map[string]struct{ query, want string }{
		"failures":   {"&types=run.failed", "run.failed"},
		"agent":      {"&agent_id=" + idle + "&types=agent.created,session.created", "agent.created"},
		"team":       {"&team_id=" + team, "team.round_end team.round_start team.round_start"},
		"sessions":   {"&types=session.created", "session.created"},
		"agents":     {"&types=agent.created", "agent.created agent.created"},
		"initiative": {"&types=company.paused&company_id=" + id, "company.paused"},
	} {
		if got := strings.Join(typesOf(feedOf(n, c.query, "50")), " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	failed := feedOf(n, "&types=run.failed", "1")[0]
	if failed["run_id"] != bad || failed["agent_name"] != "Ann" || failed["title"] != "A run of Ann failed" || failed["error"] == nil ||
		failed["metrics"].(object)["steps"] == nil {
		t.Errorf("%v", failed)
	}
	n.Do("GET", "/api/v1/feed?types=run.exploded", nil).IsProblem(t, 400, "INVALID_QUERY")
	n.Do("GET", "/api/v1/feed?cursor=x", nil).IsProblem(t, 422, "INVALID_CURSOR")
	_, other := n.CreateTenant(object{"name": "Other"})
	if got := feedOf(other, "&agent_id="+agent, "50"); len(got) != 0 {
		t.Errorf("another company reads %v", got)
	}
	streamFeed(t, n, agent)
}

// streamFeed reads what happens, and resumes after an entry.
func streamFeed(t *testing.T, n *apptest.Server, agent string) {
	t.Helper()
	const path = "/api/v1/feed/stream?types=run.started,run.completed&agent_id="
	done := make(chan []apptest.Frame, 1)
	opened := make(chan struct{})
	go func() {
		done <- n.ReadStream(path+agent, "", func(f apptest.Frame) bool {
			if f.Name == "ready" {
				close(opened)
			}
			return f.Name == "entry" && f.Object(t)["event_type"] == "run.completed"
		})
	}()
	<-opened
	run := n.StartRun(agent, "hello", nil)
	frames := <-done
	var started apptest.Frame
	for _, f := range frames {
		if f.Name == "entry" && started.ID == "" {
			started = f
		}
	}
	if got := started.Object(t); got["event_type"] != "run.started" || got["run_id"] != run || got["event"] != "entry" {
		t.Errorf("%v", got)
	}
	again := n.ReadStream(path+agent, started.ID, func(f apptest.Frame) bool { return f.Name == "entry" })
	if last := again[len(again)-1].Object(t); last["event_type"] != "run.completed" || last["run_id"] != run {
		t.Errorf("after %s comes %v", started.ID, last)
	}
	past := n.ReadStream(path+agent+"&limit=1", "", func(f apptest.Frame) bool { return f.Name == "entry" })
	if last := past[len(past)-1].Object(t); last["run_id"] != run {
		t.Errorf("with limit=1 the first entry is %v", last)
	}
	unknown := n.ReadStream(path+agent, "nonsense", func(f apptest.Frame) bool { return f.Name == "gap" })
	if len(unknown) != 2 {
		t.Errorf("%v", unknown)
	}
}
