package mission_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/teams/mission"
	"agentd/internal/teams/mission/missionsql"
	"agentd/internal/teams/objective/objectivetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a world with missions.
type world struct {
	*objectivetest.World
	*mission.Service
	store   *missionsql.Store
	client  resourcetest.Client
	session string
	worker  string // the session's agent
	agents  []string
}

type object = map[string]any

func openOn(t *testing.T, db *sqldb.DB, seed uint64, crashes float64) *world {
	t.Helper()
	w := &world{World: objectivetest.New(t, db, seed, crashes), store: missionsql.New(db), session: ident.New(), worker: ident.New()}
	w.agents = []string{w.worker, ident.New(), ident.New()}
	exists := func(_ txn.Tx, _, id string) error {
		if slices.Contains(w.agents, id) {
			return nil
		}
		return fault.NewNotFound("agent")
	}
	w.Service = mission.New(mission.Deps{
		Crew: w.Crew, Missions: w.store, Agent: exists, Team: exists, Cursors: page.NewCursors([]byte("the key of the cursors")),
		Session: func(_ context.Context, tenant, id string) (string, error) {
			if tenant != w.Tenant || id != w.session {
				return "", fault.NewNotFound("session")
			}
			return w.worker, nil
		},
	})
	w.client = resourcetest.NewClient(w.Routes())
	w.client.Who = authz.Caller{TenantID: w.Tenant, UserID: "ada", KeyID: "k"}
	w.Answer = func(_ string, in run.Input) (string, string) { return work(in) }
	return w
}

func open(t *testing.T, seed uint64, crashes float64) *world {
	t.Helper()
	return openOn(t, sqldbtest.Open(t, sqldbtest.SQLite), seed, crashes)
}

func work(in run.Input) (string, string) {
	switch {
	case strings.Contains(in.Instructions, "Verify whether"):
		return `{"verified":true}`, ""
	case strings.Contains(in.Instructions, "Decide by the result"):
		return `{"branch":1}`, ""
	}
	title, _, _ := strings.Cut(in.Message, "\n")
	return "did " + title, ""
}

// do calls an operation, without crashes.
func (w *world) do(method, path string, body any) (object, error) {
	w.T.Helper()
	crashes := w.Crashes
	w.Crashes = 0
	defer func() { w.Crashes = crashes }()
	args := resourcetest.Args{}
	if body != nil {
		enc, err := json.Marshal(body)
		if err != nil {
			w.T.Fatal(err)
		}
		args[""] = string(enc)
	}
	pattern := path
	if rest, ok := strings.CutPrefix(path, "/api/v1/missions/"); ok {
		id, below, _ := strings.Cut(rest, "/")
		args["missionId"], pattern = id, "/api/v1/missions/{missionId}"
		if one, ok := strings.CutPrefix(below, "objectives/"); ok {
			args["objectiveId"], below = one, "objectives/{objectiveId}"
		}
		if below != "" {
			pattern += "/" + below
		}
	}
	// As the edge does: bodies are checked, and have their defaults.
	switch {
	case pattern == "/api/v1/missions" && method == "POST":
		start, err := schema.Decode[mission.Start]([]byte(args[""]))
		if err != nil {
			return nil, err
		}
		enc, err := json.Marshal(start)
		if err != nil {
			w.T.Fatal(err)
		}
		args[""] = string(enc)
	case method == "PATCH":
		if _, err := schema.Decode[mission.Change]([]byte(args[""])); err != nil {
			return nil, err
		}
	}
	reply, err := w.client.Do(w.T.Context(), method, pattern, args)
	if err != nil {
		return nil, err
	}
	return resourcetest.Object(w.T, reply), nil
}

func (w *world) must(method, path string, body any) object {
	w.T.Helper()
	o, err := w.do(method, path, body)
	if err != nil {
		w.T.Fatalf("%s %s: %v", method, path, err)
	}
	return o
}

// begin starts a mission, and returns its path.
func (w *world) begin(body object) string {
	w.T.Helper()
	body["session_id"] = w.session
	if body["goal"] == nil {
		body["goal"] = "the goal"
	}
	return "/api/v1/missions/" + w.must("POST", "/api/v1/missions", body)["mission_id"].(string)
}

// settle lets everybody work until the mission has one of the states.
func (w *world) settle(path string, states ...string) object {
	w.T.Helper()
	id := strings.TrimPrefix(path, "/api/v1/missions/")
	w.Settle(mission.WorkKind, w.Handle, func() bool {
		r, err := w.store.Get(w.T.Context(), w.Tenant, id)
		if err != nil {
			w.T.Fatal(err)
		}
		return slices.Contains(states, r.Status)
	})
	return w.must("GET", path, nil)
}

func (w *world) end(path string) object {
	return w.settle(path, mission.Completed, mission.Failed, mission.Aborted)
}

func (w *world) states(path string) string {
	w.T.Helper()
	var all []string
	for _, o := range w.must("GET", path+"/objectives", nil)["items"].([]any) {
		o := o.(object)
		all = append(all, strings.TrimSpace(fmt.Sprint(o["title"], " ", o["status"])))
	}
	return strings.Join(all, ", ")
}

func plan(objectives ...object) object { return object{"objectives": objectives} }

// A mission with a plan: objectives are worked on as their dependencies allow, judged,
// and reported.
func TestMissions(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := openOn(t, db, 1, 0)
		path := w.begin(object{"max_cost_usd": 100, "plan": plan(
			object{"title": "a", "success_criteria": []string{"it is there"}, "assigned_agent_id": w.agents[1]},
			object{"title": "b", "depends_on_indices": []int{0}, "budget": object{"max_runs": 2, "max_tokens": 100, "max_cost_usd": 3}},
			object{"title": "c"})})
		w.CostUSD = 0.5
		got := w.end(path)
		if got["status"] != "completed" || got["outcome"] != "success" || got["result_code"] != "all_objectives_verified" ||
			got["created_by"] != "ada" || len(got["checkpoint_ids"].([]any)) != 3 || got["result_details"].(object)["verified"] != 1.0 {
			t.Errorf("%v", got)
		}
		if m := got["metrics"].(object); m["total_cost_usd"] != 2.0 || m["total_tokens"] != 40.0 || m["llm_calls"] != 4.0 {
			t.Errorf("%v", m)
		}
		if s := w.states(path); s != "a completed, b completed, c completed" {
			t.Errorf("%s", s)
		}
		items := w.must("GET", path+"/objectives", nil)["items"].([]any)
		if b := items[1].(object)["budget"].(object); b["spent_runs"] != 1.0 || b["spent_tokens"] != 10.0 || b["spent_cost_usd"] != 0.5 {
			t.Errorf("%v", b)
		}
		w.checkRunsOfMission()
		w.checkReport(path, got["aar_id"])
		if l := w.must("GET", "/api/v1/missions", nil); l["total"] != 1.0 || l["items"].([]any)[0].(object)["mission_id"] != got["mission_id"] {
			t.Errorf("%v", l)
		}
		for _, action := range []string{"authorize", "run", "pause", "resume", "abort"} {
			if _, err := w.do("POST", path+"/"+action, nil); !fault.Is(err, fault.Conflict) {
				t.Errorf("%s of a mission that has ended: %v", action, err)
			}
		}
	})
}

// checkRunsOfMission checks what TestMissions asked the agents: only the second objective has
// a budget of its own and waits for another one.
func (w *world) checkRunsOfMission() {
	w.T.Helper()
	for id, req := range w.Asked {
		var in run.Input
		if err := json.Unmarshal(req.Input, &in); err != nil {
			w.T.Fatal(err)
		}
		ofB := strings.HasPrefix(in.Message, "b")
		if len(req.Budgets) != map[bool]int{true: 2, false: 1}[ofB] || ofB != (req.Limits.MaxTokensPerRun != nil) {
			w.T.Errorf("%s: %v %+v", in.Message, req.Budgets, req.Limits)
		}
		if ofB && !strings.Contains(in.Message, "[Result of: a]\ndid a") || w.Created[id] != 1 {
			w.T.Errorf("%s", in.Message)
		}
	}
}

// checkReport checks the report on the mission of TestMissions.
func (w *world) checkReport(path string, id any) {
	w.T.Helper()
	aar := w.must("GET", path+"/aar", nil)
	phases := phasesOf(aar)
	if aar["outcome"] != "success" || aar["failure_analysis"] != nil || len(aar["objective_outcomes"].([]any)) != 3 || aar["aar_id"] != id ||
		phases[0] != "recon" || !slices.Contains(phases, "execute") || len(aar["lessons"].([]any)) != 1 {
		w.T.Errorf("%v", aar)
	}
}

func phasesOf(aar object) (phases []string) {
	for _, p := range aar["phases"].([]any) {
		phases = append(phases, p.(object)["phase"].(string))
	}
	return phases
}

// A planner makes the plan; one that cannot be used is asked for once more, with what was
// wrong, and then the mission fails.
func TestPlanner(t *testing.T) {
	t.Parallel()
	many := `{"objectives":[` + strings.Repeat(`{"title":"x"},`, 9999) + `{"title":"x"}]}`
	for name, c := range map[string]struct {
		answers []string
		want    string // code
		wrong   string
	}{
		"right":      {[]string{`So: {"objectives":[{"title":"a"},{"title":"b","depends_on_indices":[0]}]}`}, "all_objectives_verified", ""},
		"at last":    {[]string{`no`, `{"objectives":[{"title":"a"}]}`}, "all_objectives_verified", "no JSON"},
		"no JSON":    {[]string{`no`}, "planning_failed", "no JSON"},
		"a cycle":    {[]string{`{"objectives":[{"title":"a","depends_on_indices":[1]},{"title":"b","depends_on_indices":[0]}]}`}, "planning_failed", "0 -> 1 -> 0"},
		"10,000":     {[]string{many}, "planning_failed", "at most 500"},
		"a stranger": {[]string{`{"objectives":[{"title":"a","assigned_agent_id":"x"}]}`}, "planning_failed", "none of the agents"},
		"a team":     {[]string{`{"objectives":[{"title":"a","assigned_team_id":"x"}]}`}, "planning_failed", "only agents"},
	} {
		w := open(t, 1, 0)
		n, told := 0, ""
		w.Answer = func(_ string, in run.Input) (string, string) {
			if !strings.Contains(in.Instructions, "Make a plan") {
				return work(in)
			}
			n++
			told = in.Message
			return c.answers[min(n, len(c.answers))-1], ""
		}
		path := w.begin(object{"skip_classification": true, "available_agents": []object{{"agent_id": w.agents[1], "name": "Ann", "description": "digs"}}})
		got := w.end(path)
		if got["result_code"] != c.want || !strings.Contains(told, "Ann. digs") || n > 1 && !strings.Contains(told, c.wrong) || n != max(len(c.answers), map[bool]int{true: 1, false: 2}[c.wrong == ""]) {
			t.Errorf("%s: %v after %d: %q", name, got, n, told)
		}
		if c.want == "planning_failed" && (got["status"] != "failed" || !strings.Contains(got["result_summary"].(string), c.wrong)) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A mission that runs out of time or money ends, with what it had reached.
func TestLimitsOfMissions(t *testing.T) {
	t.Parallel()
	w := open(t, 1, 0)
	deadline := w.Clock.Now().Add(time.Hour)
	path := w.begin(object{"deadline": deadline, "max_concurrency": 1, "plan": plan(object{"title": "a"}, object{"title": "b"})})
	w.Settle(mission.WorkKind, w.Handle, func() bool {
		return strings.HasPrefix(w.states(path), "a completed, b in_progress") && len(w.Open()) == 1
	})
	w.Clock.Advance(2 * time.Hour)
	w.Drive(mission.WorkKind, "n1", w.Handle)
	got := w.must("GET", path, nil)
	if got["result_code"] != "deadline_passed" || got["outcome"] != "partial" || len(w.Open()) != 0 {
		t.Errorf("%v", got)
	}

	w = open(t, 1, 0)
	w.Answer = func(_ string, in run.Input) (string, string) {
		if strings.HasPrefix(in.Message, "b") {
			return "", run.CodeBudgetExceeded
		}
		return work(in)
	}
	path = w.begin(object{"max_cost_usd": 1, "max_concurrency": 1, "plan": plan(object{"title": "a"}, object{"title": "b"}, object{"title": "c"})})
	got = w.end(path)
	if got["outcome"] != "partial" || w.states(path) != "a completed, b failed, c failed" {
		t.Errorf("%v %s", got, w.states(path))
	}

	// Strikes are those that the caller says, and a judge is asked who was named.
	w = open(t, 1, 0)
	w.Answer = func(agent string, in run.Input) (string, string) {
		if agent == w.agents[2] {
			return `{"verified":false,"reason":"never"}`, ""
		}
		return work(in)
	}
	path = w.begin(object{"max_strikes": 2, "judge_agent_id": w.agents[2], "plan": plan(object{"title": "a", "success_criteria": []string{"x"}})})
	got = w.end(path)
	aar := w.must("GET", path+"/aar", nil)
	cause := aar["failure_analysis"].(object)["root_causes"].([]any)[0].(object)
	if got["outcome"] != "failed" || cause["category"] != "verification_failed" || aar["objective_outcomes"].([]any)[0].(object)["abort_reason"] != "exhausted_strikes_2" {
		t.Errorf("%v %v", got, aar)
	}
}

// Objectives are changed while they are not over; the next attempt goes by the change.
func TestChanges(t *testing.T) {
	t.Parallel()
	w := open(t, 1, 0)
	path := w.begin(object{"max_concurrency": 1, "plan": object{"requires_authorization": true, "objectives": []object{{"title": "a", "assigned_agent_id": w.agents[1]}, {"title": "b"}, {"title": "c"}}}})
	ids := w.must("GET", path, nil)["objective_ids"].([]any)
	one, two, three := path+"/objectives/"+ids[0].(string), ids[1].(string), ids[2].(string)
	decide := func(of, to string) []object {
		return []object{{"condition": "which?", "branches": []object{{"when": "x", "objective_id": to}}, "fallback_objective_id": of}}
	}
	for name, c := range map[string]struct {
		body object
		want string
	}{
		"nothing":      {object{}, "nothing to change"},
		"blank":        {object{"title": " "}, "title"},
		"both":         {object{"assigned_agent_id": w.agents[1], "assigned_team_id": w.agents[2]}, "assigned_team_id"},
		"no objective": {object{"decision_points": decide(two, ident.New())}, "decision_points[0].branches[0].objective_id"},
		"itself":       {object{"decision_points": decide(ids[0].(string), two)}, "decision_points[0].fallback_objective_id"},
	} {
		_, err := w.do("PATCH", one, c.body)
		said := ""
		if f := fault.From(err); f != nil {
			said = f.Detail
			for _, field := range f.Fields {
				said += " " + field.Field + ": " + field.Message
			}
		}
		if !fault.Is(err, fault.Invalid) || !strings.Contains(said, c.want) {
			t.Errorf("%s: %v", name, said)
		}
	}
	for _, field := range []string{"assigned_agent_id", "assigned_team_id"} {
		if _, err := w.do("PATCH", one, object{field: ident.New()}); !fault.Is(err, fault.NotFound) {
			t.Errorf("a stranger in %s: %v", field, err)
		}
	}
	changed := w.must("PATCH", one, object{
		"title": "A", "description": "d", "success_criteria": []string{"s"}, "priority": "low", "assigned_agent_id": "", "commanders_intent": "i",
		"budget": object{"max_runs": 5}, "roe": object{"prohibited": []string{"p"}}, "decision_points": decide(three, two),
		"deadline": "2030-01-01T00:00:00Z",
	})
	if changed["title"] != "A" || changed["assigned_agent_id"] != nil || changed["priority"] != "low" || changed["deadline"] != "2030-01-01T00:00:00Z" {
		t.Errorf("%v", changed)
	}
	w.must("PATCH", one, object{"budget": object{"max_tokens": 1000, "max_cost_usd": 2}})
	if _, err := w.do("PATCH", path+"/objectives/"+two, object{"decision_points": decide(three, ids[0].(string))}); !strings.Contains(fmt.Sprint(fault.From(err).Fields), "circle") {
		t.Errorf("%v", err)
	}
	if _, err := w.do("PATCH", path+"/objectives/"+ident.New(), object{"title": "x"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
	w.must("POST", path+"/authorize", nil)
	w.end(path)
	if s := w.states(path); s != "A completed, b completed, c skipped" {
		t.Errorf("%s", s)
	}
	for _, req := range w.Asked {
		var in run.Input
		if err := json.Unmarshal(req.Input, &in); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(in.Message, "A\n") && strings.Contains(in.Instructions, "You work on one") {
			text := in.Message + in.Instructions
			for _, part := range []string{"\nd\n", "- s", "\ni", "- p"} {
				if !strings.Contains(text, part) {
					t.Errorf("no %q in %s", part, text)
				}
			}
			if req.AgentID != w.worker || *req.Limits.MaxTokensPerRun != 1000 {
				t.Errorf("%+v", req)
			}
		}
	}
	if _, err := w.do("PATCH", one, object{"title": "x"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
}
