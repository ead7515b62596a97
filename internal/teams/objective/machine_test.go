package objective

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/execution/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func newSet(planned ...Planned) *Set {
	return &Set{Objectives: Make("owner", planned, noon), Now: noon, Worker: "w", Judge: "j", MaxConcurrency: 2, MaxStrikes: 2}
}

// play has every task answered by answer, which fails a task with an error code, until
// nothing comes next. It returns what the tasks were for, in order.
func play(t *testing.T, s *Set, answer func(Task) (text, code string)) (did []string) {
	t.Helper()
	seq := 0
	for range 200 {
		next := s.Next()
		for _, one := range next {
			seq++
			one.Seq = seq
			title := s.Find(one.ObjectiveID).Plan.Title
			did = append(did, one.Purpose+" "+title)
			s.Tasks = append(s.Tasks, one)
		}
		open := 0
		for i := range s.Tasks {
			one := &s.Tasks[i]
			if one.Ended() {
				continue
			}
			if open++; open > s.MaxConcurrency {
				t.Errorf("%d tasks at a time", open)
			}
			text, code := answer(*one)
			one.Status, one.Text, one.Tokens, one.CostUSD = run.Completed, text, 10, 0.5
			if code != "" {
				one.Status, one.ErrorCode, one.Error = run.Failed, code, "It broke."
			}
		}
		if open == 0 && len(next) == 0 {
			return did
		}
	}
	t.Fatal("it does not end")
	return nil
}

func echo(t Task) (string, string) {
	switch t.Purpose {
	case Judge:
		return `{"verified":true}`, ""
	case Decide:
		return `{"branch":1}`, ""
	}
	return "did " + strings.SplitN(t.Message, "\n", 2)[0], ""
}

func states(s *Set) map[string]string {
	got := map[string]string{}
	for _, o := range s.Objectives {
		got[o.Plan.Title] = strings.TrimSuffix(o.State.Status+" "+o.State.Abort, " ")
	}
	return got
}

func ms(n int64) *int64 { return &n }

func TestNext(t *testing.T) {
	t.Parallel()
	usd := 0.6
	past := noon
	verdicts := func(texts ...string) func(Task) (string, string) {
		n := 0
		return func(t Task) (string, string) {
			if t.Purpose != Judge {
				return echo(t)
			}
			n++
			return texts[min(n, len(texts))-1], ""
		}
	}
	for name, c := range map[string]struct {
		planned []Planned
		answer  func(Task) (string, string)
		change  func(*Set)
		did     []string
		want    map[string]string
	}{
		"dependencies": {
			planned: []Planned{{Title: "a"}, {Title: "b", DependsOn: []int{0}}, {Title: "c", DependsOn: []int{0, 1}}},
			did:     []string{"work a", "work b", "work c"},
			want:    map[string]string{"a": Completed, "b": Completed, "c": Completed},
		},
		"the most important first": {
			planned: []Planned{{Title: "a", Priority: "low"}, {Title: "b", Priority: "medium"}, {Title: "c", Priority: "critical"}},
			did:     []string{"work c", "work b", "work a"},
			want:    map[string]string{"a": Completed, "b": Completed, "c": Completed},
		},
		"verified": {
			planned: []Planned{{Title: "a", Criteria: []string{"true"}}},
			answer:  verdicts(`{"verified":false,"reason":"more"}`, `so: {"verified":true}`),
			did:     []string{"work a", "judge a", "work a", "judge a"},
			want:    map[string]string{"a": Completed},
		},
		"strikes": {
			planned: []Planned{{Title: "a", Criteria: []string{"true"}}, {Title: "b", DependsOn: []int{0}}, {Title: "c", DependsOn: []int{1}}},
			answer:  verdicts(`{"verified":false}`),
			did:     []string{"work a", "judge a", "work a", "judge a"},
			want:    map[string]string{"a": "failed exhausted_strikes_2", "b": "failed dependency_failed", "c": "failed dependency_failed"},
		},
		"a judge that cannot be read": {
			planned: []Planned{{Title: "a", Criteria: []string{"true"}}},
			answer:  verdicts(`it is fine`),
			did:     []string{"work a", "judge a", "judge a"},
			want:    map[string]string{"a": "failed verifier_error"},
		},
		"a run that fails": {
			planned: []Planned{{Title: "a"}},
			answer:  func(Task) (string, string) { return "", run.CodeModelError },
			did:     []string{"work a", "work a"},
			want:    map[string]string{"a": "failed exhausted_strikes_2"},
		},
		"runs of a budget": {
			planned: []Planned{{Title: "a", Budget: &Budget{MaxRuns: ms(1)}}},
			answer:  func(Task) (string, string) { return "", run.CodeModelError },
			did:     []string{"work a"},
			want:    map[string]string{"a": "failed budget_exhausted"},
		},
		"tokens of a budget": {
			planned: []Planned{{Title: "a", Criteria: []string{"true"}, Budget: &Budget{MaxTokens: ms(10)}}},
			did:     []string{"work a"},
			want:    map[string]string{"a": "failed budget_exhausted"},
		},
		"costs of a budget": {
			planned: []Planned{{Title: "a", Criteria: []string{"true"}, Budget: &Budget{MaxCostUSD: &usd}}},
			answer:  verdicts(`{"verified":false}`),
			did:     []string{"work a", "judge a"},
			want:    map[string]string{"a": "failed budget_exhausted"},
		},
		"a run whose own budget is used up": {
			planned: []Planned{{Title: "a", Budget: &Budget{MaxCostUSD: &usd}}},
			answer:  func(Task) (string, string) { return "", run.CodeBudgetExceeded },
			did:     []string{"work a"},
			want:    map[string]string{"a": "failed budget_exhausted"},
		},
		"a deadline": {
			planned: []Planned{{Title: "a", Deadline: &past}},
			want:    map[string]string{"a": "failed deadline_passed"},
		},
		"decisions": {
			planned: []Planned{
				{Title: "a", Decisions: []PlannedDecision{{Condition: "?", Branches: []PlannedBranch{{When: "x", Objective: 1}, {When: "y", Objective: 2}}}}},
				{Title: "b"}, {Title: "c"}, {Title: "d", DependsOn: []int{2}},
			},
			did:  []string{"work a", "decide a", "work b"},
			want: map[string]string{"a": Completed, "b": Completed, "c": Skipped, "d": Skipped},
		},
		"a fallback": {
			planned: []Planned{
				{Title: "a", Decisions: []PlannedDecision{{Condition: "?", Branches: []PlannedBranch{{When: "x", Objective: 1}}, Fallback: new(2)}}},
				{Title: "b"}, {Title: "c"},
			},
			answer: func(t Task) (string, string) {
				if t.Purpose == Decide {
					return "I cannot say.", ""
				}
				return echo(t)
			},
			did:  []string{"work a", "decide a", "decide a", "work c"},
			want: map[string]string{"a": Completed, "b": Skipped, "c": Completed},
		},
		"a decision of what failed": {
			planned: []Planned{
				{Title: "a", Decisions: []PlannedDecision{{Condition: "?", Branches: []PlannedBranch{{When: "x", Objective: 1}}}}}, {Title: "b"},
			},
			answer: func(Task) (string, string) { return "", run.CodeModelError },
			did:    []string{"work a", "work a"},
			want:   map[string]string{"a": "failed exhausted_strikes_2", "b": Skipped},
		},
		"parents": {
			planned: []Planned{{Title: "a"}, {Title: "b"}, {Title: "c"}},
			change: func(s *Set) {
				s.Objectives[1].Plan.ParentID, s.Objectives[2].Plan.ParentID = s.Objectives[0].ID, s.Objectives[1].ID
			},
			did:  []string{"work c"},
			want: map[string]string{"a": Completed, "b": Completed, "c": Completed},
		},
		"held": {
			planned: []Planned{{Title: "a"}},
			change:  func(s *Set) { s.Hold = true },
			want:    map[string]string{"a": Pending},
		},
	} {
		s := newSet(c.planned...)
		if c.change != nil {
			c.change(s)
		}
		answer := c.answer
		if answer == nil {
			answer = echo
		}
		if diff := cmp.Diff(c.did, play(t, s, answer)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.want, states(s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Where nothing is left to pay for an objective, it waits for its owner, without a
// strike.
func TestBroke(t *testing.T) {
	t.Parallel()
	s := newSet(Planned{Title: "a"}, Planned{Title: "b"})
	play(t, s, func(Task) (string, string) { return "", run.CodeBudgetExceeded })
	if diff := cmp.Diff(map[string]string{"a": Pending, "b": Pending}, states(s)); diff != "" || !s.Broke || s.Objectives[0].State.Strikes != 0 {
		t.Errorf("%s %v %+v", diff, s.Broke, s.Objectives[0].State)
	}
}

// What whoever works on an objective receives: its plan, the results that it depends on,
// and what was wrong with the last attempt.
func TestTexts(t *testing.T) {
	t.Parallel()
	s := newSet(
		Planned{Title: "a"},
		Planned{
			Title: "b", Description: "at length", Criteria: []string{"it is round"}, DependsOn: []int{0}, AgentID: "bob", Intent: "it matters",
			Rules: &Rules{Autonomous: []string{"read"}, Approval: []string{"buy"}, Prohibited: []string{"delete"}},
		},
	)
	s.Frame = "the goal"
	var works, verdicts []Task
	play(t, s, func(one Task) (string, string) {
		if one.Purpose == Judge {
			verdicts = append(verdicts, one)
			if len(verdicts) == 1 {
				return `{"verified":false,"reason":"it is square"}`, ""
			}
			return echo(one)
		}
		works = append(works, one)
		return echo(one)
	})
	if len(works) != 3 || len(verdicts) != 2 || works[1].AgentID != "bob" || verdicts[0].AgentID != "j" {
		t.Fatalf("%+v", works)
	}
	second := works[1].Message + works[1].Instructions
	for _, part := range []string{"b\n", "at length", "- it is round", "[Result of: a]\ndid a", "the goal", "it matters", "- read", "- buy", "- delete"} {
		if !strings.Contains(second, part) {
			t.Errorf("no %q in %s", part, second)
		}
	}
	if third := works[2].Message; !strings.Contains(third, "it is square") || !strings.Contains(third, "[Your last result]\ndid b") {
		t.Errorf("the second attempt is told %s", third)
	}
	if m := verdicts[0].Message; !strings.Contains(m, "did b") || !strings.Contains(m, "it is round") {
		t.Errorf("the judge is told %s", m)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	many := make([]Planned, 10_000)
	for i := range many {
		many[i].Title = "x"
	}
	for name, c := range map[string]struct {
		planned []Planned
		want    string
	}{
		"none":        {nil, "objectives: the plan has no objectives; it needs at least one"},
		"10,000":      {many, "objectives: the plan has 10000 objectives; a mission may have 500"},
		"blank":       {[]Planned{{Title: " "}}, "objectives[0].title: it is blank"},
		"itself":      {[]Planned{{Title: "a", DependsOn: []int{0}}}, "objectives[0].depends_on_indices[0]: an objective cannot follow itself"},
		"beyond":      {[]Planned{{Title: "a", DependsOn: []int{7}}}, "objectives[0].depends_on_indices[0]: there is no objective 7 in the plan; they are counted from 0 to 0"},
		"two workers": {[]Planned{{Title: "a", AgentID: "x", TeamID: "y"}}, "objectives[0].assigned_team_id: it is assigned to an agent already; name one of the two"},
		"a cycle": {[]Planned{{Title: "a", DependsOn: []int{2}}, {Title: "b", DependsOn: []int{0}}, {Title: "c", DependsOn: []int{1}}, {Title: "d"}},
			"objectives[0].depends_on_indices: objectives wait for each other: 0 -> 2 -> 1 -> 0; leave one of these dependencies out"},
		"a cycle by a branch": {[]Planned{
			{Title: "a", DependsOn: []int{1}, Decisions: []PlannedDecision{{Branches: []PlannedBranch{{Objective: 1}}}}}, {Title: "b"}},
			"objectives[0].depends_on_indices: objectives wait for each other: 0 -> 1 -> 0; leave one of these dependencies out"},
		"right": {[]Planned{{Title: "a"}, {Title: "b", DependsOn: []int{0}}}, ""},
	} {
		got := ""
		for _, f := range Check(c.planned) {
			got += fmt.Sprintf("%s: %s", f.Field, f.Message)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	long := make([]Planned, Max)
	for i := range long {
		long[i].Title = "x"
		if i > 0 {
			long[i].DependsOn = []int{i - 1}
		}
	}
	if wrong := Check(long); wrong != nil {
		t.Errorf("the longest plan: %v", wrong)
	}
	if !Cyclic([]string{"a", "b"}, [][]string{{"b"}, {"a"}}) || Cyclic([]string{"a", "b"}, [][]string{{"b"}, {"c"}}) {
		t.Error("circles of names are not found")
	}
}
