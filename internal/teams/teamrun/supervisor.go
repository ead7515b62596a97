package teamrun

import (
	"fmt"
	"strings"

	"agentd/internal/teams/group"
	"agentd/internal/teams/team"
)

// supervisor has the supervisor plan, the members work, and the results be joined. Where
// the supervisor joins them, it may plan further tasks instead.
func (m *machine) supervisor() decision {
	round := m.round()
	merged := m.of(merge, round)
	if len(merged) == 0 {
		return m.cycle(round)
	}
	if round < m.Policies.MaxRounds {
		if d := m.assign(merged[0].Text, round+1); len(d.tasks) > 0 {
			return d
		}
	}
	return m.end(merged[0].Text)
}

// cycle returns what is next in a round of a plan, its tasks and their results. It ends
// with the result.
func (m *machine) cycle(round int) decision {
	if works := m.of(work, round); len(works) > 0 {
		return m.join(works)
	}
	if m.Delegation == team.InTurn {
		return m.toAll(round)
	}
	plans := m.of(plan, round)
	if len(plans) == 0 {
		return decision{tasks: []Task{{AgentID: m.Supervisor, Purpose: plan, Round: round, Message: m.message, Instructions: m.planning()}}}
	}
	if d := m.assign(plans[0].Text, round); len(d.tasks) > 0 {
		return d
	}
	return m.toAll(round)
}

// planning returns the instructions of a supervisor that plans.
func (m *machine) planning() string {
	return "You lead a team. Divide the message into tasks for its members. Answer with nothing but JSON: " +
		`{"assignments":[{"agent_id":"…","task":"…"}]}. A member knows only what its task says. The members:` + "\n" + m.listed("")
}

// assign returns the tasks of a plan in a text, for members of the team; none if there
// is no plan in it.
func (m *machine) assign(text string, round int) (d decision) {
	var p struct {
		Assignments []struct {
			AgentID string `json:"agent_id"`
			Task    string `json:"task"`
		} `json:"assignments"`
	}
	if !group.Object(text, &p) {
		return d
	}
	for _, a := range p.Assignments {
		if m.member(a.AgentID) != nil && strings.TrimSpace(a.Task) != "" && len(d.tasks) < team.MaxWorkers {
			d.tasks = append(d.tasks, Task{AgentID: a.AgentID, Purpose: work, Round: round, Message: m.shared(a.AgentID, a.Task)})
		}
	}
	return d
}

func (m *machine) toAll(round int) (d decision) {
	for _, w := range m.Members {
		d.tasks = append(d.tasks, Task{AgentID: w.AgentID, Purpose: work, Round: round, Message: m.message})
	}
	return d
}

// led has the supervisor work alone: it delegates by its own tool calls, whose runs are
// those of its run.
func (m *machine) led() decision {
	if len(m.last) > 0 {
		return m.end(m.last[0].Text)
	}
	return decision{tasks: []Task{{
		AgentID: m.Supervisor, Purpose: lead, Round: 1, Message: m.message,
		Instructions: "You lead a team. Give its members tasks with the tool " + ToolName + ", several at a time where they do not " +
			"depend on each other, and answer the message when you have what you need. A member knows only what its task says. " +
			"The members:\n" + m.listed(""),
	}}}
}

// chat has the members answer a message of the chat.
func (m *machine) chat() (d decision) {
	if len(m.last) == 0 {
		for _, w := range m.Members {
			d.tasks = append(d.tasks, Task{AgentID: w.AgentID, Purpose: reply, Round: 1, Message: m.message})
		}
		return d
	}
	var texts []string
	for _, t := range done(m.last) {
		texts = append(texts, t.Text)
	}
	if len(texts) == 0 {
		return nothing
	}
	return m.end(strings.Join(texts, "\n\n"))
}

// goalDriven has the team work in rounds, until a judge finds the goal reached or a
// bound is met. Each round sees the result of the one before, and what it lacks.
func (m *machine) goalDriven() decision {
	goal, round := m.message, m.round()
	if round > 1 {
		before := m.of(judge, round-1)[0]
		m.message = goal + m.soFar(before)
	}
	result := m.cycle(round)
	if result.status != Completed && result.status != PartialFailure {
		return result
	}
	verdicts := m.of(judge, round)
	if len(verdicts) == 0 {
		return decision{tasks: []Task{{
			AgentID: m.judgeID(), Purpose: judge, Round: round, Message: goal + resultMark + shown(result.output),
			Instructions: "The message is a goal, with the result that a team has reached so far. Judge whether the goal is reached. " +
				`Answer with nothing but JSON: {"reached":true} or {"reached":false,"reason":"what is missing"}.`,
		}}}
	}
	v, ok := readVerdict(verdicts[0].Text)
	if !ok {
		return unread(&verdicts[0], "verdict")
	}
	if *v.Reached {
		return result
	}
	if bound := m.exhausted(round); bound != "" {
		result.status = PartialFailure
		result.reason = fmt.Sprintf("The goal was not reached: %s. The judge said: %s", bound, clip(v.Reason))
		return result
	}
	m.message = goal + m.soFar(verdicts[0])
	return m.cycle(round + 1)
}

const resultMark = "\n\n[Result so far]\n"

// soFar returns what a round is shown of the one before, whose verdict it gets.
func (m *machine) soFar(verdict Task) string {
	_, result, _ := strings.Cut(verdict.Message, resultMark)
	v, _ := readVerdict(verdict.Text)
	return resultMark + result + "\n\n[What is missing]\n" + clip(v.Reason)
}

type verdict struct {
	Reached *bool  `json:"reached"`
	Reason  string `json:"reason"`
}

func readVerdict(text string) (v verdict, ok bool) {
	return v, group.Object(text, &v) && v.Reached != nil
}

func (m *machine) judgeID() string {
	if m.Goal != nil && m.Goal.JudgeID != "" {
		return m.Goal.JudgeID
	}
	return m.Supervisor
}

// exhausted returns which bound forbids another round; "": none.
func (m *machine) exhausted(round int) string {
	most, g := m.Policies.MaxRounds, m.Goal
	if g != nil && g.MaxIterations != nil {
		most = *g.MaxIterations
	}
	if round >= most {
		return fmt.Sprintf("its %d rounds are over", most)
	}
	if g == nil || g.Budget == nil {
		return ""
	}
	var tokens int64
	var usd float64
	for _, t := range m.all {
		tokens += t.InputTokens + t.OutputTokens
		usd += t.CostUSD
	}
	switch b := g.Budget; {
	case b.MaxRuns != nil && int64(len(m.all)) >= *b.MaxRuns:
		return fmt.Sprintf("its %d runs are used up", *b.MaxRuns)
	case b.MaxTokens != nil && tokens >= *b.MaxTokens:
		return fmt.Sprintf("its %d tokens are used up", *b.MaxTokens)
	case b.MaxCostUSD != nil && usd >= *b.MaxCostUSD:
		return fmt.Sprintf("its %g US dollars are used up", *b.MaxCostUSD)
	}
	return ""
}

// clip cuts a reason.
func clip(text string) string {
	if text = strings.TrimSpace(text); len(text) > 2000 {
		text = strings.ToValidUTF8(text[:2000], "") + " […]"
	}
	return text
}
