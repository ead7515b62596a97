package teamrun

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/execution/run"
	"agentd/internal/teams/team"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// members answer tasks: by agent and message.
type script func(agent, message string, attempt int) (text string, status run.Status)

// play runs a team on a script, all tasks of a decision at once, and returns what it
// did: "agent purpose round", and its end.
func play(t *testing.T, s Spec, message string, answers script) (did []string, end decision) {
	t.Helper()
	var tasks []Task
	for range 200 {
		d := next(&s, message, tasks)
		if d.status != "" {
			return did, d
		}
		if len(d.tasks) == 0 {
			t.Fatalf("the team waits for nothing after %v", did)
		}
		for _, one := range d.tasks {
			one.Seq = len(tasks) + 1
			if one.Slot == 0 {
				one.Slot, one.Attempt = one.Seq, 1
			}
			did = append(did, fmt.Sprintf("%s %s %d", one.AgentID, one.Purpose, one.Round))
			tasks = append(tasks, one)
			if waits := next(&s, message, tasks); one.Attempt == 1 && (waits.status != "" || len(waits.tasks) > 0) {
				t.Fatalf("the team does not wait for its task: %+v", waits)
			}
		}
		for i := range tasks {
			if one := &tasks[i]; !one.ended() {
				one.OutputTokens = 1
				one.Text, one.Status = answers(one.AgentID, one.Message, one.Attempt)
				if one.Status != run.Completed {
					one.Error = "It broke."
				}
			}
		}
	}
	t.Fatalf("the team does not end: %v", did)
	return nil, decision{}
}

func spec(topology string, change func(*Spec)) Spec {
	yes, retries := true, 1
	s := Spec{
		Topology: topology, Supervisor: "boss", Members: []Member{{AgentID: "a", Role: "r", ReadOthers: true}, {AgentID: "b", ReadOthers: true}},
		Delegation: team.SupervisorDecides, Merge: team.SupervisorMerges, Shared: true, Initial: "a", Handoffs: 2,
		Policies: team.Policies{MaxRounds: 2, OnWorkerFailure: team.Retry, MaxWorkerRetries: &retries, EarlyTermination: &yes, MaxConcurrency: 8},
	}
	if change != nil {
		change(&s)
	}
	return s
}

// validated has an answer scored by two criteria, and revised once.
func validated(s *Spec) {
	s.Policies.Validation = &team.Validation{
		Enabled: new(true), Criteria: []team.Criterion{{Name: "style"}, {Name: "size"}}, MinScore: new(0.7), MaxRounds: new(1), AutoRevise: new(true),
	}
}

func says(text string) (string, run.Status) { return text, run.Completed }

const toB = `{"assignments":[{"agent_id":"b","task":"dig"},{"agent_id":"stranger","task":"x"}]}`

// topologies are teams, what their agents say, and what comes of it.
var topologies = map[string]struct {
	spec    Spec
	answers script
	did     string
	end     decision
}{
	"supervisor_plans": {spec(team.Supervisor, nil), func(agent, message string, _ int) (string, run.Status) {
		switch {
		case agent == "boss" && message == "go":
			return says("Here: ```" + toB + "```")
		case agent == "boss":
			return says(message)
		}
		return says("dug " + message)
	}, "boss plan 1,b work 1,boss merge 1", decision{status: Completed, output: "go\n\n[Answer of b]\ndug dig"}},
	"without_a_plan_all_get_the_message": {spec(team.Supervisor, nil), func(agent, message string, _ int) (string, run.Status) {
		if agent == "boss" {
			return says("fine")
		}
		return says(agent + message)
	}, "boss plan 1,a work 1,b work 1,boss merge 1", decision{status: Completed, output: "fine"}},
	"supervisor_has_rounds": {spec(team.Supervisor, nil), func(agent, _ string, _ int) (string, run.Status) {
		if agent == "boss" {
			return says(toB)
		}
		return says("x")
	}, "boss plan 1,b work 1,boss merge 1,b work 2,boss merge 2", decision{status: Completed, output: toB}},
	"round_robin_delegation_concatenates": {spec(team.Supervisor, func(s *Spec) { s.Delegation, s.Merge = team.InTurn, team.Concatenate }),
		func(agent, message string, _ int) (string, run.Status) { return says(agent + message) },
		"a work 1,b work 1", decision{status: Completed, output: "ago\n\nbgo"}},
	"vote": {spec(team.Supervisor, func(s *Spec) {
		s.Delegation, s.Merge = team.InTurn, team.Vote
		s.Members = append(s.Members, Member{AgentID: "c"})
	}), func(agent, _ string, _ int) (string, run.Status) {
		return says(map[string]string{"a": "No", "b": "Yes  sir", "c": "yes sir"}[agent])
	}, "a work 1,b work 1,c work 1", decision{status: Completed, output: "Yes  sir"}},
	"vote_without_consensus": {spec(team.Supervisor, func(s *Spec) {
		s.Delegation, s.Merge, s.Policies.ConsensusThreshold = team.InTurn, team.Vote, new(0.6)
	}), func(agent, _ string, _ int) (string, run.Status) { return says(agent) },
		"a work 1,b work 1", decision{status: Failed, reason: "The members did not agree: 1 of 2 gave the most frequent answer."}},
	"a_failure_is_retried": {spec(team.Pipeline, nil), func(agent, message string, attempt int) (string, run.Status) {
		if agent == "a" && attempt == 1 {
			return "", run.Failed
		}
		return says(message + agent)
	}, "a work 1,a work 1,b work 2", decision{status: Completed, output: "goab"}},
	"a_failure_is_skipped": {spec(team.Pipeline, func(s *Spec) { s.Policies.OnWorkerFailure = team.Skip }),
		func(agent, message string, _ int) (string, run.Status) {
			if agent == "a" {
				return "", run.TimedOut
			}
			return says(message + agent)
		}, "a work 1,b work 2", decision{status: PartialFailure, output: "gob"}},
	"a_failure_aborts": {spec(team.Pipeline, func(s *Spec) { s.Policies.OnWorkerFailure = team.Abort }),
		func(string, string, int) (string, run.Status) { return "", run.Failed },
		"a work 1", decision{status: Failed, reason: "The task of agent a was not done: It broke."}},
	"all_are_required": {spec(team.Pipeline, func(s *Spec) { s.Policies.RequireAllWorkers = true }),
		func(string, string, int) (string, run.Status) { return "", run.Failed },
		"a work 1,a work 1", decision{status: Failed, reason: "The task of agent a was not done: It broke."}},
	"none_did_it": {spec(team.Pipeline, nil), func(string, string, int) (string, run.Status) { return "", run.Failed },
		"a work 1,a work 1,b work 2,b work 2", nothing},
	"a_supervisor_that_fails": {spec(team.Supervisor, nil), func(string, string, int) (string, run.Status) { return "", run.Failed },
		"boss plan 1,boss plan 1", decision{status: Failed, reason: "The task of agent boss was not done: It broke."}},
	"pipeline": {spec(team.Pipeline, nil), func(agent, message string, _ int) (string, run.Status) { return says(message + agent) },
		"a work 1,b work 2", decision{status: Completed, output: "goab"}},
	"round_robin": {spec(team.RoundRobin, nil), func(agent, message string, _ int) (string, run.Status) {
		if agent == "boss" {
			return says("merged")
		}
		return says(fmt.Sprint(agent, len(message)))
	}, "a work 1,b work 1,a work 2,b work 2,boss merge 2", decision{status: Completed, output: "merged"}},
	"round_robin_ends_early": {spec(team.RoundRobin, func(s *Spec) { s.Policies.MaxRounds, s.Merge = 9, team.Concatenate }),
		func(agent, _ string, _ int) (string, run.Status) { return says(agent) },
		"a work 1,b work 1,a work 2,b work 2", decision{status: Completed, output: "a\n\nb"}},
	"message_passing": {spec(team.RoundRobin, func(s *Spec) { s.Shared, s.Policies.MaxRounds, s.Merge = false, 1, team.Concatenate }),
		func(_, message string, _ int) (string, run.Status) { return says(message) },
		"a work 1,b work 1", decision{status: Completed, output: "go\n\ngo"}},
	"a_member_that_may_not_read": {spec(team.RoundRobin, func(s *Spec) {
		s.Members[1].ReadOthers, s.Policies.MaxRounds, s.Merge = false, 1, team.Concatenate
	}), func(_, message string, _ int) (string, run.Status) { return says(message) },
		"a work 1,b work 1", decision{status: Completed, output: "go\n\ngo"}},
	"goal_reached_in_the_second_round": {spec(team.GoalDriven, func(s *Spec) { s.Delegation, s.Merge, s.Goal = team.InTurn, team.Concatenate, &team.Goal{JudgeID: "j"} }),
		func(agent, message string, _ int) (string, run.Status) {
			switch {
			case agent == "j" && strings.Contains(message, "b2"):
				return says(`{"reached":true}`)
			case agent == "j":
				return says(`no: {"reached":false,"reason":"a 2"}`)
			case strings.Contains(message, "[What is missing]\na 2"):
				return says(agent + "2")
			}
			return says(agent + "1")
		}, "a work 1,b work 1,j judge 1,a work 2,b work 2,j judge 2", decision{status: Completed, output: "a2\n\nb2"}},
	"goal_out_of_rounds": {spec(team.GoalDriven, nil), func(agent, message string, _ int) (string, run.Status) {
		switch {
		case agent == "boss" && strings.HasSuffix(message, "[Result so far]\nall"):
			return says(`{"reached":false,"reason":"more"}`)
		case agent == "boss" && strings.Contains(message, "[Answer of"):
			return says("all")
		}
		return says(toB)
	}, "boss plan 1,b work 1,boss merge 1,boss judge 1,boss plan 2,b work 2,boss merge 2,boss judge 2",
		decision{status: PartialFailure, output: "all", reason: "The goal was not reached: its 2 rounds are over. The judge said: more"}},
	"goal_out_of_tokens": {spec(team.GoalDriven, func(s *Spec) {
		one := int64(1)
		s.Delegation, s.Merge, s.Goal = team.InTurn, team.Concatenate, &team.Goal{Budget: &team.Budget{MaxTokens: &one}}
	}), func(agent, _ string, _ int) (string, run.Status) {
		if agent == "boss" {
			return says(`{"reached":false}`)
		}
		return says("x")
	}, "a work 1,b work 1,boss judge 1",
		decision{status: PartialFailure, output: "x\n\nx", reason: "The goal was not reached: its 1 tokens are used up. The judge said: "}},
	"goal_with_a_verdict_that_is_no_json": {spec(team.GoalDriven, func(s *Spec) { s.Delegation, s.Merge = team.InTurn, team.Concatenate }),
		func(string, string, int) (string, run.Status) { return says("I like it.") }, "a work 1,b work 1,boss judge 1,boss judge 1",
		decision{status: Failed, reason: "The verdict of agent boss could not be read: it is not the JSON that was asked for."}},
	"tool_driven": {spec(team.Supervisor, func(s *Spec) { s.ToolDriven = true }),
		func(string, string, int) (string, run.Status) { return says("led") }, "boss lead 1", decision{status: Completed, output: "led"}},
	"chat": {spec(team.Supervisor, func(s *Spec) { s.Chat = true }),
		func(agent, message string, _ int) (string, run.Status) { return says(agent + message) }, "a reply 1,b reply 1",
		decision{status: Completed, output: "ago\n\nbgo"}},
	"peers_improve": {spec(team.Supervisor, func(s *Spec) {
		s.Delegation, s.Merge, s.Mode = team.InTurn, team.Concatenate, team.PeerCollab
	}), func(agent, message string, _ int) (string, run.Status) {
		if strings.Contains(message, "[Your answer]\n"+agent+"1") && strings.Count(message, "[Answer of") == 1 {
			return says(agent + "2")
		}
		return says(agent + "1")
	}, "a work 1,b work 1,a peer 1,b peer 1", decision{status: Completed, output: "a2\n\nb2"}},
	"peers_that_fail_keep_their_answers": {spec(team.RoundRobin, func(s *Spec) {
		s.Policies.MaxRounds, s.Merge, s.Mode, s.Policies.OnWorkerFailure = 1, team.Concatenate, team.PeerCollab, team.Skip
	}), func(agent, message string, _ int) (string, run.Status) {
		if strings.Contains(message, "[Your answer]") {
			return "", run.Failed
		}
		return says(agent)
	}, "a work 1,b work 1,a peer 1,b peer 1", decision{status: PartialFailure, output: "a\n\nb"}},
	"members_vote": {spec(team.Supervisor, func(s *Spec) { s.Delegation, s.Mode = team.InTurn, team.VoteBased }),
		func(agent, message string, _ int) (string, run.Status) {
			if strings.Contains(message, "[Answer 2]\nb") {
				return says(`{"vote":2}`)
			}
			return says(agent)
		}, "a work 1,b work 1,a ballot 1,b ballot 1", decision{status: Completed, output: "b"}},
	"members_vote_for_nothing": {spec(team.Supervisor, func(s *Spec) { s.Delegation, s.Mode = team.InTurn, team.VoteBased }),
		func(string, string, int) (string, run.Status) { return says(`{"vote":7}`) }, "a work 1,b work 1,a ballot 1,b ballot 1",
		decision{status: Failed, reason: "The members did not agree: 0 of 2 voted for the answer with the most votes."}},
	"votes_without_consensus": {spec(team.Supervisor, func(s *Spec) {
		s.Delegation, s.Mode, s.Policies.ConsensusThreshold = team.InTurn, team.VoteBased, new(0.6)
	}), func(agent, message string, _ int) (string, run.Status) {
		if !strings.Contains(message, "[Answer 1]") {
			return says(agent)
		}
		return says(map[string]string{"a": `{"vote":1}`, "b": `{"vote":2}`}[agent])
	}, "a work 1,b work 1,a ballot 1,b ballot 1",
		decision{status: Failed, reason: "The members did not agree: 1 of 2 voted for the answer with the most votes."}},
	"validated": {spec(team.Pipeline, validated), func(agent, message string, _ int) (string, run.Status) {
		switch {
		case agent == "boss" && strings.HasSuffix(message, "[What is wrong with it]\nlonger"):
			return says("long")
		case agent == "boss" && strings.HasSuffix(message, "[Answer]\nlong"):
			return says(`{"scores":{"style":1,"size":0.5}}`)
		case agent == "boss":
			return says(`{"scores":{"style":9,"size":0},"feedback":"longer"}`)
		}
		return says(agent)
	}, "a work 1,b work 2,boss validate 0,boss revise 1,boss validate 1", decision{status: Completed, output: "long"}},
	"not_accepted": {spec(team.Swarm, func(s *Spec) {
		validated(s)
		s.Supervisor, s.Policies.Validation.ValidatorID = "", "v"
	}), func(agent, _ string, _ int) (string, run.Status) {
		if agent == "v" {
			return says(`{"scores":{},"feedback":"no"}`)
		}
		return says("x")
	}, "a work 1,v validate 0,a revise 1,v validate 1", decision{status: Failed,
		reason: "The answer was not accepted: it scored 0.00 of the 0.70 that policies.validation.min_score needs. no"}},
	"not_revised": {spec(team.Pipeline, func(s *Spec) {
		validated(s)
		s.Policies.Validation.AutoRevise = new(false)
	}), func(string, string, int) (string, run.Status) { return says(`{"scores":{"size":1}}`) }, "a work 1,b work 2,boss validate 0",
		decision{status: Failed, reason: "The answer was not accepted: it scored 0.50 of the 0.70 that policies.validation.min_score needs. "}},
	"a_validation_that_is_off": {spec(team.Pipeline, func(s *Spec) {
		validated(s)
		s.Policies.Validation.Enabled = new(false)
	}), func(agent, _ string, _ int) (string, run.Status) { return says(agent) }, "a work 1,b work 2", decision{status: Completed, output: "b"}},
	"scores_that_are_no_json": {spec(team.Pipeline, validated), func(string, string, int) (string, run.Status) { return says("good") },
		"a work 1,b work 2,boss validate 0,boss validate 0",
		decision{status: Failed, reason: "The score of agent boss could not be read: it is not the JSON that was asked for."}},
	"swarm": {spec(team.Swarm, nil), func(agent, message string, _ int) (string, run.Status) {
		if agent == "a" {
			return says("half\nHANDOFF: b")
		}
		return says(message)
	}, "a work 1,b work 2", decision{status: Completed, output: "go\n\n[Answer of a]\nhalf\nHANDOFF: b"[:len("go\n\n[Answer of a]\nhalf")]}},
	"swarm_hands_off_for_ever": {spec(team.Swarm, nil), func(agent, _ string, _ int) (string, run.Status) {
		return says(agent + "\nHANDOFF: " + map[string]string{"a": "b", "b": "a"}[agent])
	}, "a work 1,b work 2,a work 3", decision{status: Completed, output: "a"}},
	"swarm_to_a_stranger": {spec(team.Swarm, nil), func(string, string, int) (string, run.Status) { return says("x\nHANDOFF: stranger") },
		"a work 1", decision{status: Completed, output: "x"}},
	"swarm_with_a_summary": {spec(team.Swarm, func(s *Spec) { s.Summary = true }), func(agent, message string, _ int) (string, run.Status) {
		if strings.Count(message, "[Answer of") > 1 {
			return says("too much")
		}
		return says(agent + "\nHANDOFF: " + map[string]string{"a": "b", "b": "a"}[agent])
	}, "a work 1,b work 2,a work 3", decision{status: Completed, output: "a"}},
}

func TestTopologies(t *testing.T) {
	t.Parallel()
	for name, c := range topologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			did, end := play(t, c.spec, "go", c.answers)
			if got := strings.Join(did, ","); got != c.did {
				t.Errorf("it did %s, want %s", got, c.did)
			}
			if diff := cmp.Diff(c.end, end, cmp.AllowUnexported(decision{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What members answer is cut before others are shown it.
func TestAnswersAreCut(t *testing.T) {
	t.Parallel()
	got := answers([]Task{{AgentID: "a", Purpose: work, Status: run.Completed, Text: strings.Repeat("é", maxShown)}})
	if len(got) > maxShown+100 || !strings.HasSuffix(got, "[…]") {
		t.Errorf("%d bytes", len(got))
	}
}
