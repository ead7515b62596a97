package runs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

var goalIDs = regexp.MustCompile(`goal_id (\S+),`)

// board answers as a strategist, a judge and those who work.
func board(r modeltest.Request) modeltest.Answer {
	c := r.Chat()
	system, last := c.Messages[0].Text(), c.Last(model.User)
	switch {
	case strings.Contains(last, "Decide what is to be done next") && strings.Contains(last, "completed: Write"):
		return modeltest.Answer{Text: `{"completed_goals":["` + goalIDs.FindStringSubmatch(last)[1] + `"],"escalation":{"message":"It is done."}}`}
	case strings.Contains(last, "Decide what is to be done next") && strings.Contains(last, "given up"):
		return modeltest.Answer{Text: `{}`}
	case strings.Contains(last, "Decide what is to be done next"):
		goal := goalIDs.FindStringSubmatch(last)[1]
		return modeltest.Answer{Text: fmt.Sprintf(`{"objectives":[{"ref":"w","goal_id":%q,"title":"Write"},
			{"goal_id":%q,"title":"Check","success_criteria":["it is short"],"depends_on":["w"]}]}`, goal, goal)}
	case strings.Contains(last, "Verify whether") && strings.Contains(system, "never satisfied"):
		return modeltest.Answer{Text: `{"verified":false,"reason":"it is long"}`}
	case strings.Contains(last, "Verify whether"):
		return modeltest.Answer{Text: `{"verified":true}`}
	}
	_, work, _ := strings.Cut(last, "What all of them are for:\n") // the goal, then the objective
	_, work, _ = strings.Cut(work, "\n\n")
	return modeltest.Answer{Text: "did " + strings.SplitN(work, "\n", 2)[0]}
}

// objectivesOf returns the objectives of a mission or an initiative by their titles.
func objectivesOf(n *apptest.Server, path, list string) map[string]object {
	n.T.Helper()
	all := map[string]object{}
	for _, o := range n.Expect(200, "GET", path+"/objectives", nil)[list].([]any) {
		all[o.(object)["title"].(string)] = o.(object)
	}
	return all
}

// An initiative pursues its goals with real runs: a tick adds objectives, agents work on
// them, a judge verifies them, and the strategist finds the goal reached.
func TestInitiatives(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(board)), func(t *testing.T, n *apptest.Server) {
		body := object{
			"name": "Letter", "mission": "A letter", "strategic_goals": []object{{"title": "Ten issues"}},
			"budget": object{"total_usd": 10, "daily_limit_usd": 5, "alert_threshold_pct": 80}, "config": object{"max_concurrency": 1},
		}
		made := n.Expect(201, "POST", "/api/v1/initiatives", body)
		id := made["initiative_id"].(string)
		path := "/api/v1/initiatives/" + id
		if made["company_id"] != id || n.Expect(200, "GET", "/api/v1/agents/"+made["strategist_agent_id"].(string), nil)["name"] != "Letter (strategist)" {
			t.Errorf("%v", made)
		}
		twin := n.Do("GET", "/api/v1/companies/"+id, nil)
		if twin.StatusCode != 200 || twin.Header.Get("Deprecation") != "true" || twin.Header.Get("X-API-Deprecation-Info") != "companies-routes" ||
			twin.Header.Get("Link") != "<"+path+`>; rel="successor-version"` {
			t.Errorf("%d %v", twin.StatusCode, twin.Header)
		}
		if l := n.Expect(200, "GET", "/api/v1/companies", nil); l["total"] != 1.0 || len(l["companies"].([]any)) != 1 {
			t.Errorf("%v", l)
		}

		n.Expect(202, "POST", path+"/tick", nil)
		var done map[string]object
		apptest.Eventually(t, func() bool {
			done = objectivesOf(n, path, "objectives")
			return done["Check"]["status"] == "completed"
		})
		if done["Check"]["verified"] != true || done["Write"]["result"] != "did Write" || done["Ten issues"]["status"] != "in_progress" ||
			done["Write"]["company_id"] != id {
			t.Errorf("%v", done)
		}
		trees := n.Expect(200, "GET", path+"/objectives", nil)["trees"].([]any)
		if len(trees) != 1 || len(trees[0].(object)["children"].([]any)) != 2 {
			t.Errorf("%v", trees)
		}
		n.Expect(202, "POST", path+"/tick", nil)
		apptest.Eventually(t, func() bool {
			goal := n.Expect(200, "GET", path, nil)["strategic_goals"].([]any)[0].(object)
			return goal["completed_at"] != nil
		})
		page := n.Expect(200, "GET", path+"/activity?limit=2", nil)
		next := n.Expect(200, "GET", path+"/activity?limit=2&cursor="+page["cursor"].(string), nil)
		if page["has_more"] != true || len(next["entries"].([]any)) != 2 || next["entries"].([]any)[0].(object)["success"] != true {
			t.Errorf("%v %v", page, next)
		}
		if b := n.Expect(200, "GET", path+"/budget", nil); b["total_usd"] != 10.0 || b["remaining_usd"].(float64) > 10 {
			t.Errorf("%v", b)
		}
		var names []string
		n.ReadStream(path+"/events", "0", func(f apptest.Frame) bool {
			names = append(names, f.Name)
			return f.Name == "initiative.goal_completed"
		})
		if text := strings.Join(names, " "); !strings.HasPrefix(text, "connected initiative.tick_start task_started") || !strings.Contains(text, "objective_change") {
			t.Errorf("%s", text)
		}

		for range 2 {
			if s := n.Expect(200, "POST", path+"/pause", nil); s["status"] != "paused" {
				t.Errorf("%v", s)
			}
		}
		n.Expect(409, "POST", path+"/tick", nil)
		if s := n.Expect(200, "POST", "/api/v1/companies/"+id+"/resume", nil); s["status"] != "active" {
			t.Errorf("%v", s)
		}
		n.Expect(204, "DELETE", path, nil)
		n.Expect(404, "GET", path+"/objectives", nil)
		n.Expect(404, "GET", "/api/v1/agents/"+made["strategist_agent_id"].(string), nil)

		// One whose judge is never satisfied, with a strategist of one's own that stays.
		own := crewMember(n, "plans")
		body["strategist_agent_id"], body["name"] = own, "Strict"
		body["config"] = object{"max_strikes": 1, "judge_agent_id": crewMember(n, "never satisfied")}
		strict := "/api/v1/initiatives/" + n.Expect(201, "POST", "/api/v1/initiatives", body)["initiative_id"].(string)
		n.Expect(202, "POST", strict+"/tick", nil)
		apptest.Eventually(t, func() bool { return objectivesOf(n, strict, "objectives")["Check"]["status"] == "failed" })
		if o := objectivesOf(n, strict, "objectives")["Check"]; o["abort_reason"] != "exhausted_strikes_1" || o["strikes_used"] != 1.0 {
			t.Errorf("%v", o)
		}
		n.Expect(204, "DELETE", strict, nil)
		n.Expect(200, "GET", "/api/v1/agents/"+own, nil)
	})
}
