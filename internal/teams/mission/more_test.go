package mission_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/execution/run"
	"agentd/internal/teams/mission"
	"agentd/internal/teams/objective"
)

// What is refused at the start, each with its field or what to do.
func TestStartRefuses(t *testing.T) {
	t.Parallel()
	w := open(t, 1, 0)
	many := make([]object, 10_000)
	for i := range many {
		many[i] = object{"title": "x"}
	}
	stranger := ident.New()
	for name, c := range map[string]struct {
		body object
		want string
	}{
		"nothing":            {object{}, "goal"},
		"no session":         {object{"session_id": stranger, "goal": "g"}, "such session"},
		"blank":              {object{"goal": " "}, "goal"},
		"nobody plans":       {object{"goal": "g"}, "planner_agent_id"},
		"no objectives":      {object{"goal": "g", "plan": plan()}, "plan.objectives"},
		"10,000":             {object{"goal": "g", "plan": object{"objectives": many}}, "plan.objectives"},
		"a cycle":            {object{"goal": "g", "plan": plan(object{"title": "a", "depends_on_indices": []int{1}}, object{"title": "b", "depends_on_indices": []int{0}})}, "plan.objectives[0].depends_on_indices"},
		"an unknown agent":   {object{"goal": "g", "plan": plan(object{"title": "a", "assigned_agent_id": stranger})}, "such agent"},
		"an unknown team":    {object{"goal": "g", "plan": plan(object{"title": "a", "assigned_team_id": stranger})}, "such agent"},
		"an unknown planner": {object{"goal": "g", "planner_agent_id": stranger}, "such agent"},
		"an unknown judge":   {object{"goal": "g", "judge_agent_id": stranger, "plan": plan(object{"title": "a"})}, "such agent"},
		"unknown available":  {object{"goal": "g", "available_agents": []object{{"agent_id": stranger, "name": "x"}}}, "such agent"},
	} {
		if c.body["session_id"] == nil && name != "nothing" {
			c.body["session_id"] = w.session
		}
		_, err := w.do("POST", "/api/v1/missions", c.body)
		f := fault.From(err)
		if err == nil || f.Kind == fault.Internal {
			t.Errorf("%s: %v", name, err)
			continue
		}
		said := f.Detail
		for _, field := range f.Fields {
			said += " " + field.Field + ":"
		}
		if !strings.Contains(said, c.want) {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// A planner's plan waits for authorization too where the caller says so; what a plan says
// of itself goes before what the mission says.
func TestAuthorizedPlans(t *testing.T) {
	t.Parallel()
	w := open(t, 1, 0)
	w.Answer = func(_ string, in run.Input) (string, string) {
		if strings.Contains(in.Instructions, "Make a plan") {
			return `{"objectives":[{"title":"a"}]}`, ""
		}
		return work(in)
	}
	path := w.begin(object{"planner_agent_id": w.agents[1], "skip_classification": true, "requires_authorization": true})
	if m := w.settle(path, mission.Awaiting); len(m["objective_ids"].([]any)) != 1 || len(w.Stored) != 1 {
		t.Errorf("%v", m)
	}
	w.must("POST", path+"/authorize", nil)
	if m := w.end(path); m["outcome"] != "success" {
		t.Errorf("%v", m)
	}

	soon := w.Clock.Now().Add(time.Minute)
	path = w.begin(object{"deadline": soon.Add(time.Hour), "plan": object{
		"goal": "the goal of the plan", "classification": "quick_reply", "deadline": soon, "objectives": []object{{"title": "a"}},
	}})
	m := w.must("GET", path, nil)
	if m["goal"] != "the goal of the plan" || m["classification"] != "quick_reply" || m["deadline"] != soon.Format(time.RFC3339Nano) {
		t.Errorf("%v", m)
	}
}

// What a plan says becomes objectives: what is to be done, by which rules, and what is
// decided by the results.
func TestPlansAreRead(t *testing.T) {
	t.Parallel()
	plan, err := mission.ParsePlan(`{"objectives":[{"title":"a","description":"d","priority":"critical","commanders_intent":"i","deadline":"2030-01-01T00:00:00Z",
		"roe":{"autonomous_actions":["read"],"requires_approval":["buy"],"prohibited":["delete"]},
		"decision_points":[{"condition":"c","branches":[{"when":"w","objective_index":1}],"fallback_objective_index":2}]},{"title":"b"},{"title":"c"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	all := objective.Make(ident.New(), plan.Objectives, time.Time{})
	p := all[0].Plan
	if p.Description != "d" || p.Priority != "critical" || p.Intent != "i" || p.Deadline.Year() != 2030 || all[1].Plan.Priority != "medium" ||
		p.Rules.Autonomous[0] != "read" || p.Rules.Approval[0] != "buy" || p.Rules.Prohibited[0] != "delete" {
		t.Errorf("%+v", p)
	}
	if d := p.Decisions[0]; d.Condition != "c" || d.Branches[0].When != "w" || d.Branches[0].ObjectiveID != all[1].ID || d.Fallback != all[2].ID {
		t.Errorf("%+v", d)
	}
}

// Others' missions do not exist.
func TestTenancy(t *testing.T) {
	t.Parallel()
	w := open(t, 1, 0)
	path := w.begin(object{"plan": plan(object{"title": "a"})})
	w.client.Who.TenantID = ident.New()
	for _, call := range []struct {
		method, below string
		body          any
	}{
		{"GET", "", nil}, {"GET", "/objectives", nil}, {"GET", "/aar", nil}, {"POST", "/authorize", nil}, {"POST", "/run", nil},
		{"POST", "/pause", nil}, {"POST", "/resume", nil}, {"POST", "/abort", object{}}, {"PATCH", "/objectives/" + ident.New(), object{"title": "x"}},
	} {
		if _, err := w.do(call.method, path+call.below, call.body); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s %s: %v", call.method, call.below, err)
		}
	}
	if l := w.must("GET", "/api/v1/missions", nil); l["total"] != 0.0 {
		t.Errorf("%v", l)
	}
}

// Missions of many objectives whose workers are killed at any moment, and whose agents
// fail now and then: no objective is worked on again that was reached, no run is
// started twice, and no event is lost. AGENTD_TEST_ROUNDS is the number of seeds.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds := 3
	if n, err := strconv.Atoi(os.Getenv("AGENTD_TEST_ROUNDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := open(t, uint64(seed), 0.1)
			failed := map[string]bool{}
			works := map[string]int{} // that were answered, by objective
			w.Answer = func(_ string, in run.Input) (string, string) {
				title, _, _ := strings.Cut(in.Message, "\n")
				if strings.Contains(in.Instructions, "You work on one") {
					if !failed[title] && w.Rand.IntN(5) == 0 {
						failed[title] = true
						return "", run.CodeModelError
					}
					works[title]++
				}
				return work(in)
			}
			var objectives []object
			for i := range 30 {
				o := object{"title": fmt.Sprint("o", i)}
				if i%3 == 0 {
					o["success_criteria"] = []string{"x"}
				}
				if i > 3 {
					o["depends_on_indices"] = []int{i - 4, w.Rand.IntN(i)}
				}
				objectives = append(objectives, o)
			}
			path := w.begin(object{"max_concurrency": 4, "max_cost_usd": 1000, "plan": object{"objectives": objectives}})
			w.CostUSD = 0.25
			got := w.end(path)
			if got["outcome"] != "success" || len(got["checkpoint_ids"].([]any)) != 30 {
				t.Errorf("%v", got)
			}
			for title, n := range works {
				if n != 1 {
					t.Errorf("%s was reached %d times", title, n)
				}
			}
			for id, n := range w.Created {
				if n != 1 {
					t.Errorf("the run %s was created %d times", id, n)
				}
			}
			if want := 0.25 * float64(len(w.Stored)); got["metrics"].(object)["total_cost_usd"] != want {
				t.Errorf("%v for %d runs", got["metrics"], len(w.Stored))
			}
			id := strings.TrimPrefix(path, "/api/v1/missions/")
			r, err := w.store.Get(t.Context(), w.Tenant, id)
			if err != nil {
				t.Fatal(err)
			}
			all, counts := w.Events(id, r.EventSeq)
			if counts["terminal"] != 1 || counts["aar_finalized"] != 1 || counts["checkpoint_added"] != 30 || counts["task_started"] != len(w.Stored) ||
				all[len(all)-1].Name != "terminal" {
				t.Errorf("events %v", counts)
			}
		})
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for goal, want := range map[string]string{
		"What is the capital of France?": "quick_reply",
		"Say hello":                      "quick_reply",
		"Research the three cheapest laptops, compare them, then write a report and review it": "mission",
		"Migrate the database:\n1. export it\n2. import it\n3. test it":                        "mission",
		"": "quick_reply",
	} {
		c := mission.Classify(goal)
		if c.Classification != want || c.Score < 0 || c.Score > 1 || c.Confidence < 0.5 || c.Confidence > 1 {
			t.Errorf("%q: %+v", goal, c)
		}
	}
}

// A goal that looks like one thing to answer is one objective, without a planner.
func TestQuickReply(t *testing.T) {
	t.Parallel()
	w := open(t, 1, 0)
	path := w.begin(object{"goal": "Say hello", "planner_agent_id": w.agents[1]})
	got := w.end(path)
	if got["classification"] != "quick_reply" || got["outcome"] != "success" || len(w.Stored) != 1 || w.states(path) != "Say hello completed" {
		t.Errorf("%v, %d runs", got, len(w.Stored))
	}
}

// Whatever a planner answers, it is a plan that can be followed, or refused.
func FuzzParsePlan(f *testing.F) {
	f.Add(`{"objectives":[{"title":"a","depends_on_indices":[0]}]}`)
	f.Add(`Here: {"objectives":[{"title":"a"},{"title":"b","depends_on_indices":[0],"decision_points":[{"condition":"c","branches":[{"when":"w","objective_index":0}]}]}]}.`)
	f.Add(`}{`)
	f.Fuzz(func(t *testing.T, text string) {
		plan, err := mission.ParsePlan(text)
		if (plan == nil) == (err == nil) {
			t.Fatalf("%v, %v", plan, err)
		}
		if err != nil && !fault.Is(err, fault.Malformed) && !fault.Is(err, fault.Invalid) {
			t.Errorf("%v", err)
		}
		if err == nil {
			objective.Make(ident.New(), plan.Objectives, time.Time{})
		}
	})
}
