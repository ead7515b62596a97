package runs

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// crewOfMissions answers as planner, judge and those who work.
func crewOfMissions(r modeltest.Request) modeltest.Answer {
	last := r.Chat().Last(model.User)
	switch {
	case strings.Contains(last, "hang"):
		return modeltest.Answer{HangFirst: true}
	case strings.Contains(last, "Make a plan"):
		return modeltest.Answer{Text: `{"objectives":[{"title":"dig"},{"title":"sow","depends_on_indices":[0],"success_criteria":["it grows"]}]}`}
	}
	return board(r)
}

func createMission(n *apptest.Server, agent string, body object) string {
	n.T.Helper()
	body["session_id"] = n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent})["session_id"]
	if body["goal"] == nil {
		body["goal"] = "A garden"
	}
	return "/api/v1/missions/" + n.Expect(201, "POST", "/api/v1/missions", body)["mission_id"].(string)
}

func waitMission(n *apptest.Server, path string) (m object) {
	n.T.Helper()
	apptest.Eventually(n.T, func() bool {
		m = n.Expect(200, "GET", path, nil)
		return m["completed_at"] != nil
	})
	return m
}

// A mission is planned by an agent and done with real runs; its stream has all of it, in
// order, and resumes; teams work on objectives too.
func TestMissions(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(crewOfMissions)), func(t *testing.T, n *apptest.Server) {
		ann, bob := crewMember(n, "ann"), crewMember(n, "bob")
		path := createMission(n, ann, object{"skip_classification": true, "available_agents": []object{{"agent_id": bob, "name": "Bob"}}})
		m := waitMission(n, path)
		if m["outcome"] != "success" || len(m["objective_ids"].([]any)) != 2 || len(m["checkpoint_ids"].([]any)) != 2 {
			t.Fatalf("%v", m)
		}
		done := objectivesOf(n, path, "items")
		if done["sow"]["verified"] != true || done["dig"]["result"] != "did dig" || done["dig"]["mission_id"] != m["mission_id"] {
			t.Errorf("%v", done)
		}
		frames := n.ReadStream(path+"/events", "", nil)
		names := strings.Join(apptest.FrameNames(frames), " ")
		if !strings.HasPrefix(names, "connected mission task_started task_ended status_change") || !strings.HasSuffix(names, "aar_finalized terminal [DONE]") {
			t.Errorf("%s", names)
		}
		resumed := n.ReadStream(path+"/events", frames[len(frames)-3].ID, nil)
		if got := strings.Join(apptest.FrameNames(resumed), " "); got != "connected mission terminal [DONE]" {
			t.Errorf("resumed: %s", got)
		}
		if got := strings.Join(apptest.FrameNames(n.ReadStream(path+"/events", "nonsense", nil))[:3], " "); got != "connected mission gap" {
			t.Errorf("a cursor of something else: %s", got)
		}
		if aar := n.Expect(200, "GET", path+"/aar", nil); aar["outcome"] != "success" || len(aar["objective_outcomes"].([]any)) != 2 {
			t.Errorf("%v", aar)
		}

		team := createTeam(n, object{"name": "x", "topology": "pipeline", "supervisor_agent_id": ann, "workers": []object{{"agent_id": bob}}})
		path = createMission(n, ann, object{"plan": object{"objectives": []object{{"title": "build", "assigned_team_id": team}}}})
		if m := waitMission(n, path); m["outcome"] != "success" || objectivesOf(n, path, "items")["build"]["result"] != "did build" {
			t.Errorf("%v %v", m, objectivesOf(n, path, "items"))
		}
		runs := n.Expect(200, "GET", "/api/v1/teams/"+team+"/runs", nil)["runs"].([]any)
		if len(runs) != 1 || runs[0].(object)["metadata"].(object)["source"] != "mission" {
			t.Errorf("%v", runs)
		}

		path = createMission(n, ann, object{"plan": object{"objectives": []object{{"title": "hang"}}}})
		var hanging string
		n.ReadStream(path+"/events", "", func(f apptest.Frame) bool {
			if f.Name == "task_started" {
				hanging = f.Object(t)["run_id"].(string)
			}
			return f.Name == "task_started"
		})
		n.Expect(200, "POST", path+"/abort", object{"reason": "enough"})
		if m := waitMission(n, path); m["status"] != "aborted" || n.WaitRun(hanging)["status"] != "cancelled" {
			t.Errorf("%v", m)
		}
	})
}

// A mission of 200 objectives whose process is killed with -9 in the middle goes on within
// five seconds of the start, and works on nothing again that was verified.
func TestKilledMission(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("builds and kills the program")
	}
	var mu sync.Mutex
	works := map[string]int{}
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		last := r.Chat().Last(model.User)
		if strings.Contains(last, "Verify whether") {
			return modeltest.Answer{Text: `{"verified":true}`}
		}
		_, number, ok := strings.Cut(last, "objective ")
		if !ok {
			return modeltest.Answer{Status: 400, Error: "neither an objective nor its verification: " + last}
		}
		number, _, _ = strings.Cut(number, "\n")
		title := "objective " + number
		mu.Lock()
		works[title]++
		mu.Unlock()
		return modeltest.Answer{Text: "did " + title, TTFT: 20 * time.Millisecond}
	}))
	p := apptest.BuildProcess(t, sim)
	p.Start()
	var objectives []object
	for i := range 200 {
		o := object{"title": fmt.Sprintf("objective %d", i), "success_criteria": []string{"it is done"}}
		if i > 7 {
			o["depends_on_indices"] = []int{i - 8}
		}
		objectives = append(objectives, o)
	}
	path := createMission(p.Server, crewMember(p.Server, "ann"), object{"max_concurrency": 8, "plan": object{"objectives": objectives}})
	apptest.Eventually(t, func() bool { return len(p.Expect(200, "GET", path, nil)["checkpoint_ids"].([]any)) >= 40 })
	p.Kill()
	mu.Lock()
	before := maps.Clone(works)
	mu.Unlock()
	p.Start()
	started := time.Now()
	verified := map[string]bool{}
	for title, o := range objectivesOf(p.Server, path, "items") {
		if o["verified"] == true {
			verified[title] = true
		}
	}
	n := len(p.Expect(200, "GET", path, nil)["checkpoint_ids"].([]any))
	apptest.Eventually(t, func() bool { return len(p.Expect(200, "GET", path, nil)["checkpoint_ids"].([]any)) > n })
	took := time.Since(started)
	t.Logf("%d objectives were verified; the mission went on %v after the start", len(verified), took)
	if took > 5*time.Second {
		t.Errorf("the mission went on only %v after the start", took)
	}
	var m object
	for want := n; want <= 200; want += 20 { // each within the time that tests wait
		apptest.Eventually(t, func() bool {
			m = p.Expect(200, "GET", path, nil)
			return m["completed_at"] != nil || len(m["checkpoint_ids"].([]any)) >= want
		})
	}
	m = waitMission(p.Server, path)
	if m["outcome"] != "success" || len(m["checkpoint_ids"].([]any)) != 200 {
		t.Errorf("%v", m["result_summary"])
	}
	mu.Lock()
	defer mu.Unlock()
	for title := range verified {
		if works[title] != before[title] {
			t.Errorf("%s was verified, and worked on again", title)
		}
	}
	if len(verified) < 40 || len(verified) == 200 {
		t.Errorf("%d objectives were verified by then", len(verified))
	}
}
