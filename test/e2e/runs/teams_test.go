package runs

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// crew answers as the members of teams: by their prompts.
func crew(r modeltest.Request) modeltest.Answer {
	c := r.Chat()
	system, last := c.Messages[0].Text(), c.Last(model.User)
	switch {
	case strings.Contains(last, "hang"):
		return modeltest.Answer{HangFirst: true}
	case strings.HasPrefix(system, "judge"):
		return modeltest.Answer{Text: `{"reached":true,"scores":{"c":1}}`}
	case strings.HasPrefix(system, "leads ") && c.Last(model.Tool) != "":
		return modeltest.Answer{Text: "led " + c.Last(model.Tool)}
	case strings.HasPrefix(system, "leads "):
		to, _, _ := strings.Cut(strings.TrimPrefix(system, "leads "), "\n")
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "1", Name: "delegate_to_worker", Arguments: `{"agent_id":"` + to + `","task":"dig"}`}}}
	case strings.HasPrefix(system, "hands off to "):
		to, _, _ := strings.Cut(strings.TrimPrefix(system, "hands off to "), "\n")
		return modeltest.Answer{Text: "begun\nHANDOFF: " + to}
	case strings.HasPrefix(system, "boss") && strings.Contains(last, "[Answer of"):
		_, answers, _ := strings.Cut(last, "[Answer of")
		return modeltest.Answer{Text: "merged [Answer of " + strings.Join(strings.Fields(answers), " ")}
	case strings.HasPrefix(system, "boss"):
		return modeltest.Answer{Text: "I have no plan."}
	}
	name, _, _ := strings.Cut(system, "\n")
	return modeltest.Answer{Text: name + "(" + strings.TrimSpace(last) + ")", TTFT: 5 * time.Millisecond}
}

func crewMember(n *apptest.Server, prompt string) string {
	n.T.Helper()
	return n.CreateAgent(object{"name": prompt, "prompts": object{"system": prompt}})
}

func createTeam(n *apptest.Server, body object) string {
	n.T.Helper()
	return n.Expect(201, "POST", "/api/v1/teams", body)["team_id"].(string)
}

// waitTeam waits until a run of a team has ended.
func waitTeam(n *apptest.Server, team, id string) (r object) {
	n.T.Helper()
	apptest.Eventually(n.T, func() bool {
		r = n.Expect(200, "GET", "/api/v1/teams/"+team+"/runs/"+id, nil)
		return r["status"] != "pending" && r["status"] != "running"
	})
	return r
}

func startTeam(n *apptest.Server, team string, body object) string {
	n.T.Helper()
	return n.Expect(202, "POST", "/api/v1/teams/"+team+"/runs", body)["team_run_id"].(string)
}

// Teams of every topology do what they are asked, with real runs of their members.
func TestTeamRuns(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(crew)), func(t *testing.T, n *apptest.Server) {
		boss, a, b := crewMember(n, "boss"), crewMember(n, "ann"), crewMember(n, "bob")
		workers := []object{{"agent_id": a}, {"agent_id": b, "role": "second"}}
		swarmer := crewMember(n, "hands off to "+b)
		once := object{"max_rounds": 1}
		for name, c := range map[string]struct {
			body object
			want string
			runs float64
		}{
			"supervisor": {object{}, "merged [Answer of " + a + "] ann(go) [Answer of " + b + "] bob(go)", 4},
			"pipeline":   {object{}, "bob(ann(go))", 2},
			"round_robin": {object{"policies": once, "merge_strategy": "concatenate", "message_protocol": "message_passing"},
				"ann(go)\n\nbob(go)", 2},
			"swarm": {object{"agent_ids": []string{swarmer, b}, "workers": []object{}, "supervisor_agent_id": "",
				"swarm_config": object{"initial_agent_id": swarmer}}, "bob(", 2},
		} {
			body := object{"name": name, "topology": name, "supervisor_agent_id": boss, "workers": workers}
			maps.Copy(body, c.body)
			team := createTeam(n, body)
			id := startTeam(n, team, object{"message": "go", "metadata": object{"k": "v"}})
			r := waitTeam(n, team, id)
			got, _ := r["output"].(string)
			right := got == c.want
			if name == "swarm" { // the caller's instructions stand before the message
				right = strings.HasPrefix(got, c.want) && strings.HasSuffix(got, "go\n\n[Answer of "+swarmer+"]\nbegun)")
			}
			if r["status"] != "completed" || !right || r["total_runs"] != c.runs {
				t.Errorf("%s: %v", name, r)
			}
			for _, one := range r["runs"].([]any) {
				if one := one.(object); one["team_run_id"] != id || one["status"] != "completed" {
					t.Errorf("%s: %v", name, one)
				}
			}
			said := n.Expect(200, "GET", "/api/v1/teams/"+team+"/runs/"+id+"/messages", nil)
			if said["total"] != 2*c.runs || said["messages"].([]any)[0].(object)["assistant_message"] != got {
				t.Errorf("%s: %v", name, said)
			}
			listed := n.Expect(200, "GET", "/api/v1/teams/"+team+"/runs", nil)["runs"].([]any)
			if len(listed) != 1 || listed[0].(object)["team_run_id"] != id || listed[0].(object)["metadata"].(object)["k"] != "v" {
				t.Errorf("%s: %v", name, listed)
			}
			text := string(n.Do("GET", "/api/v1/teams/"+team+"/runs/"+id+"/events", nil).Body)
			for _, event := range []string{"team.run_started", "team.round_start", "team.task_started", "team.task_ended", "team.completed", "done"} {
				if !strings.Contains(text, "event: "+event+"\n") {
					t.Errorf("%s: no %s in %s", name, event, text)
				}
			}
			if !strings.HasSuffix(strings.TrimSpace(text), "data: [DONE]") {
				t.Errorf("%s: the stream ends with %s", name, text[max(0, len(text)-100):])
			}
		}
	})
}

// A run of a team is narrowed by whom it is addressed to and by the graph, cancelled
// with the runs of its members, and deleted with its team.
func TestTeamRunsAreNarrowedAndCancelled(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(crew)), func(t *testing.T, n *apptest.Server) {
		boss, a, b := crewMember(n, "boss"), crewMember(n, "ann"), crewMember(n, "bob")
		team := createTeam(n, object{"name": "x", "topology": "pipeline", "supervisor_agent_id": boss,
			"workers": []object{{"agent_id": a}, {"agent_id": b}}})
		if r := waitTeam(n, team, startTeam(n, team, object{"message": "go", "addressed_to": []string{b}})); r["output"] != "bob(go)" {
			t.Errorf("addressed to one: %v", r)
		}
		n.Expect(422, "POST", "/api/v1/teams/"+team+"/runs", object{"message": "go", "addressed_to": []string{boss}})
		n.Expect(200, "PATCH", "/api/v1/teams/"+team+"/graph/nodes/"+b, object{"status": "idle"})
		n.Expect(422, "POST", "/api/v1/teams/"+team+"/runs", object{"message": "go", "addressed_to": []string{b}})
		if r := waitTeam(n, team, startTeam(n, team, object{"message": "go"})); r["output"] != "ann(go)" {
			t.Errorf("without a member that is idle: %v", r)
		}
		n.Expect(200, "PATCH", "/api/v1/teams/"+team+"/graph/nodes/"+a, object{"status": "terminated"})
		n.Expect(400, "POST", "/api/v1/teams/"+team+"/runs", object{"message": "go"})
		n.Expect(200, "PATCH", "/api/v1/teams/"+team+"/graph/nodes/"+a, object{"status": "active"})

		hanging := func() (id, member string) {
			id = startTeam(n, team, object{"message": "hang"})
			apptest.Eventually(t, func() bool {
				runs := n.Expect(200, "GET", "/api/v1/teams/"+team+"/runs/"+id, nil)["runs"].([]any)
				if len(runs) > 0 {
					member = runs[0].(object)["run_id"].(string)
				}
				return len(runs) > 0
			})
			return id, member
		}
		id, member := hanging()
		if c := n.Expect(200, "POST", "/api/v1/teams/"+team+"/runs/"+id+"/cancel", nil); c["cancelled"] != true {
			t.Errorf("%v", c)
		}
		if r := waitTeam(n, team, id); r["status"] != "cancelled" || n.WaitRun(member)["status"] != "cancelled" {
			t.Errorf("%v", r)
		}
		if c := n.Expect(200, "POST", "/api/v1/teams/"+team+"/runs/"+id+"/cancel", nil); c["cancelled"] != false {
			t.Errorf("a second cancellation: %v", c)
		}
		id, member = hanging()
		cancelAtOnce(n, team, id)
		if got := n.WaitRun(member)["status"]; got != "cancelled" {
			t.Errorf("the member's run is %v", got)
		}
		_, member = hanging()
		n.Expect(200, "DELETE", "/api/v1/teams/"+team, nil)
		if r := n.WaitRun(member); r["status"] != "cancelled" {
			t.Errorf("a member's run of a team that is gone is %v", r["status"])
		}
		n.Expect(404, "GET", "/api/v1/teams/"+team+"/runs/"+id, nil)
	})
}

// cancelAtOnce has four cancel a run of a team at the same time: it ends once.
func cancelAtOnce(n *apptest.Server, team, id string) {
	n.T.Helper()
	path := "/api/v1/teams/" + team + "/runs/" + id
	var all sync.WaitGroup
	var counted atomic.Int32
	for range 4 {
		all.Go(func() {
			r := n.Do("POST", path+"/cancel", nil)
			if r.StatusCode != 200 {
				n.T.Errorf("cancelled at once: %d %s", r.StatusCode, r.Body)
			} else if r.Value().(object)["cancelled"] == true {
				counted.Add(1)
			}
		})
	}
	all.Wait()
	if waitTeam(n, team, id)["status"] != "cancelled" || counted.Load() == 0 {
		n.T.Errorf("%d of four cancelled it", counted.Load())
	}
	if events := string(n.Do("GET", path+"/events", nil).Body); strings.Count(events, "event: team.cancelled\n") != 1 {
		n.T.Errorf("it did not end once: %s", events)
	}
}

// kill -9, again and again, while teams of every topology are under way: after the last
// restart each goes on, no member's task is done twice, and all end with the right answer.
func TestKilledTeam(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("builds and kills the program")
	}
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		a := crew(r)
		a.TTFT = 30 * time.Millisecond
		return a
	}))
	p := apptest.BuildProcess(t, sim)
	p.Start()
	n := p.Server
	boss, a, b, c := crewMember(n, "boss"), crewMember(n, "ann"), crewMember(n, "bob"), crewMember(n, "cat")
	judge, leader, swarmer := crewMember(n, "judge"), crewMember(n, "leads "+a), crewMember(n, "hands off to "+b)
	inTurn := object{"delegation_strategy": "round_robin", "merge_strategy": "concatenate", "message_protocol": "message_passing"}
	all := "ann(go)\n\nbob(go)\n\ncat(go)"
	teams := map[string]struct {
		topology string
		body     object
		want     string // with which the answer begins and, but for the swarm, ends
		runs     float64
	}{
		"supervisor":  {"supervisor", object{}, "merged [Answer of " + a + "] ann(go) [Answer of " + b + "] bob(go) [Answer of " + c + "] cat(go)", 5},
		"dispatch":    {"supervisor", inTurn, all, 3},
		"peer_collab": {"supervisor", object{"orchestration_mode": "peer_collab", "delegation_strategy": "round_robin"}, "merged [Answer of " + a + "]", 7},
		"tool_driven": {"supervisor", object{"supervisor_agent_id": leader, "supervisor_mode": "tool_driven"}, "led ann(dig)", 2},
		"pipeline":    {"pipeline", object{}, "cat(bob(ann(go)))", 3},
		"round_robin": {"round_robin", object{"policies": object{"max_rounds": 1}, "merge_strategy": "concatenate", "message_protocol": "message_passing"}, all, 3},
		"goal_driven": {"goal_driven", object{"goal_config": object{"judge_agent_id": judge}, "delegation_strategy": "round_robin",
			"merge_strategy": "concatenate", "message_protocol": "message_passing"}, all, 4},
		"validated": {"pipeline", object{"policies": object{"validation": object{"criteria": []object{{"name": "c"}}, "validator_agent_id": judge}}},
			"cat(bob(ann(go)))", 4},
		"swarm": {"swarm", object{"agent_ids": []string{swarmer, b}, "workers": []object{}, "supervisor_agent_id": "",
			"swarm_config": object{"initial_agent_id": swarmer}}, "bob(", 2},
	}
	started := map[string][2]string{}
	for name, one := range teams {
		body := object{"name": name, "topology": one.topology, "supervisor_agent_id": boss,
			"workers": []object{{"agent_id": a}, {"agent_id": b}, {"agent_id": c}}}
		maps.Copy(body, one.body)
		team := createTeam(n, body)
		started[name] = [2]string{team, startTeam(n, team, object{"message": "go"})}
	}
	for life := range 4 {
		<-time.After(time.Duration(20+23*life) * time.Millisecond)
		p.Kill()
		p.Start()
	}
	for name, one := range teams {
		r := waitTeam(n, started[name][0], started[name][1])
		got, _ := r["output"].(string)
		exact := name != "swarm" && name != "peer_collab" // they repeat what they were told
		if r["status"] != "completed" || !strings.HasPrefix(got, one.want) || exact && got != one.want || r["total_runs"] != one.runs ||
			len(r["runs"].([]any)) != int(one.runs) {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// A team pursues a goal, its answer is validated, and its supervisor delegates by tool
// calls of its own, which are runs of the team too.
func TestTeamsWithJudges(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(crew)), func(t *testing.T, n *apptest.Server) {
		boss, a, judge := crewMember(n, "boss"), crewMember(n, "ann"), crewMember(n, "judge")
		leader := crewMember(n, "leads "+a)
		workers := []object{{"agent_id": a}}
		for name, c := range map[string]struct {
			body object
			want string
			runs float64
			says []string // types of protocol messages, in order
		}{
			"goal_driven": {object{"topology": "goal_driven", "merge_strategy": "concatenate", "delegation_strategy": "round_robin",
				"goal_config": object{"judge_agent_id": judge}}, "ann(go)", 2, []string{"delegation", "result", "validation", "result"}},
			"validated": {object{"topology": "pipeline", "policies": object{"validation": object{"criteria": []object{{"name": "c"}}, "validator_agent_id": judge}}},
				"ann(go)", 2, []string{"delegation", "result", "validation", "result"}},
			"tool_driven": {object{"supervisor_agent_id": leader, "supervisor_mode": "tool_driven"}, "led ann(dig)", 2,
				[]string{"delegation", "result", "delegation", "result"}},
		} {
			body := object{"name": name, "supervisor_agent_id": boss, "workers": workers}
			maps.Copy(body, c.body)
			team := createTeam(n, body)
			id := startTeam(n, team, object{"input": "go"})
			r := waitTeam(n, team, id)
			if r["status"] != "completed" || r["output"] != c.want || r["total_runs"] != c.runs {
				t.Errorf("%s: %v", name, r)
			}
			for _, one := range r["runs"].([]any) {
				if one := one.(object); one["team_run_id"] != id {
					t.Errorf("%s: %v", name, one)
				}
			}
			var said []string
			for _, m := range n.Expect(200, "GET", "/api/v1/teams/"+team+"/runs/"+id+"/messages", nil)["protocol_messages"].([]any) {
				said = append(said, m.(object)["type"].(string))
			}
			if !slices.Equal(said, c.says) {
				t.Errorf("%s: %v", name, said)
			}
		}
		outside := n.CreateAgent(object{"name": "outside", "prompts": object{"system": "leads " + a}, "built_in_tools": []string{"delegate_to_worker"}})
		if r := n.WaitRun(n.StartRun(outside, "go", nil)); !strings.Contains(r["output"].(object)["text"].(string), "leads no team") {
			t.Errorf("outside of a team: %v", r["output"])
		}
	})
}

// What is no message to a team, or is addressed to strangers, is refused.
func TestTeamChatRefuses(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	team := createTeam(n, object{"name": "x", "topology": "pipeline", "supervisor_agent_id": crewMember(n, "boss"),
		"workers": []object{{"agent_id": crewMember(n, "ann")}}})
	for name, body := range map[string]object{
		"nothing": {}, "blank": {"message": " "}, "both": {"message": "a", "input": "b"}, "input_mode": {"input": object{"message": "a", "chat_mode": "x"}},
		"input_number": {"input": 7}, "blank_input": {"input": ""}, "stranger": {"message": "a", "addressed_to": []string{n.CreateAgent(object{"name": "s"})}},
	} {
		if r := n.Do("POST", "/api/v1/teams/"+team+"/runs", body); r.StatusCode != 422 {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.Body)
		}
	}
}

// The runs of a team are its chat: messages to members are threads, members that are
// addressed answer, and events of what is under way can be followed and resumed.
func TestTeamChat(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(crew)), func(t *testing.T, n *apptest.Server) {
		boss, a, b := crewMember(n, "boss"), crewMember(n, "ann"), crewMember(n, "bob lee")
		team := createTeam(n, object{"name": "x", "topology": "pipeline", "supervisor_agent_id": boss,
			"workers": []object{{"agent_id": a}, {"agent_id": b}}})
		path := "/api/v1/teams/" + team + "/chat"
		if c := n.Expect(200, "GET", path, nil); c["total"] != 0.0 || c["chat_state"].(object)["state"] != "ADDRESSING" {
			t.Errorf("before the first message: %v", c)
		}
		if c := n.Expect(200, "GET", path+"/events", nil); c["chat_state"].(object)["state"] != "ADDRESSING" {
			t.Errorf("events before the first message: %v", c)
		}
		say := func(body object) object {
			t.Helper()
			return waitTeam(n, team, startTeam(n, team, body))
		}
		if r := say(object{"message": "hey @Bob-Lee, go. @nobody", "chat_mode": "chat"}); r["output"] != "bob lee(hey @Bob-Lee, go. @nobody)" || r["thread_id"] == nil {
			t.Errorf("a mention: %v", r)
		}
		thread := say(object{"input": object{"message": "again", "addressed_to": []string{b}, "chat_mode": "chat"}})["thread_id"].(string)
		if r := say(object{"message": "to all"}); r["thread_id"] != nil || r["total_runs"] != 2.0 {
			t.Errorf("to all: %v", r)
		}
		if r := say(object{"message": "@" + boss + " hello", "chat_mode": "chat"}); r["output"] != "I have no plan." {
			t.Errorf("to the supervisor: %v", r)
		}
		c := n.Expect(200, "GET", path+"?include_internal=true&thread_id="+thread, nil)
		var got []string
		for _, e := range c["conversation_history"].([]any) {
			e := e.(object)
			got = append(got, e["role"].(string)+" "+e["content"].(string))
			if e["from_task"] != false || e["run_pending"] != false || e["thread_id"] != thread {
				t.Errorf("%v", e)
			}
		}
		answer := "bob lee(hey @Bob-Lee, go. @nobody)"
		if want := []string{"user hey @Bob-Lee, go. @nobody", "member " + answer, "assistant " + answer,
			"user again", "member bob lee(again)", "assistant bob lee(again)"}; !slices.Equal(got, want) || c["total"] != 6.0 {
			t.Errorf("the thread is %q", got)
		}
		newest := n.Expect(200, "GET", path+"?limit=1", nil)
		if newest["total"] != 2.0 || newest["has_more"] != true || newest["chat_state"].(object)["state"] != "DONE" {
			t.Errorf("the newest turn: %v", newest)
		}
		older := n.Expect(200, "GET", path+"?limit=1&cursor="+newest["cursor"].(string), nil)["conversation_history"].([]any)
		if older[0].(object)["content"] != "to all" || older[0].(object)["from_task"] != true {
			t.Errorf("the turn before: %v", older)
		}
		if r := n.Expect(200, "GET", "/api/v1/squads/"+team+"/runs", nil); len(r["runs"].([]any)) != 4 {
			t.Errorf("the runs of a squad: %v", r)
		}

		first := startTeam(n, team, object{"message": "hang", "addressed_to": []string{b}})
		second := startTeam(n, team, object{"message": "hang", "addressed_to": []string{b}})
		apptest.Eventually(t, func() bool {
			return n.Expect(200, "GET", path, nil)["chat_state"].(object)["active_team_run_id"] == first
		})
		done := make(chan string)
		go func() { done <- string(n.Do("GET", path+"/events?thread_id="+thread, nil).Body) }()
		apptest.Eventually(t, func() bool {
			return len(n.Expect(200, "GET", "/api/v1/teams/"+team+"/runs/"+first, nil)["runs"].([]any)) > 0
		})
		for _, id := range []string{first, second} {
			n.Expect(200, "POST", "/api/v1/teams/"+team+"/runs/"+id+"/cancel", nil)
			waitTeam(n, team, id)
		}
		text := <-done
		for _, want := range []string{"id: " + first + ":1\n", "id: " + second + ":1\n", "event: team.cancelled\n", "event: done\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
		if strings.Count(text, "event: done\n") != 2 || !strings.HasSuffix(strings.TrimSpace(text), "data: [DONE]") {
			t.Errorf("the stream is %s", text)
		}
		resumed := string(n.Do("GET", path+"/events?last_event_id="+first+":1", nil).Body)
		if strings.Contains(resumed, "id: "+first+":1\n") || !strings.Contains(resumed, "id: "+first+":2\n") || !strings.Contains(resumed, "id: "+second+":1\n") {
			t.Errorf("resumed: %s", resumed)
		}
	})
}
