package teamrun

import (
	"fmt"
	"slices"
	"strings"

	"agentd/internal/teams/team"
)

// decision is what a team does next: it starts tasks, it ends, or it waits for tasks
// that have not ended.
type decision struct {
	tasks  []Task // to plan: agent, purpose, round, message; a retry has a slot
	status Status // final: the run ends
	output string
	reason string // of a failure
}

// maxShown bounds the bytes of one member's answer that others are shown.
const maxShown = 32 << 10

// machine decides what a team does next.
type machine struct {
	*Spec
	message string
	all     []Task // the last attempt of each slot, in order
	last    []Task // those of all that are not about the finished answer
	reviews []Task // those that are
}

// next returns what a team does next. It depends on nothing else than its arguments.
func next(s *Spec, message string, tasks []Task) decision {
	m := machine{Spec: s, message: message}
	at := map[int]int{}
	for _, t := range tasks {
		if i, again := at[t.Slot]; again {
			m.all[i] = t
			continue
		}
		at[t.Slot] = len(m.all)
		m.all = append(m.all, t)
	}
	if d, over := m.failures(); over || len(d.tasks) > 0 {
		return d
	}
	for _, t := range m.all {
		switch {
		case !t.ended():
			return decision{}
		case t.Purpose == validate || t.Purpose == revise:
			m.reviews = append(m.reviews, t)
		default:
			m.last = append(m.last, t)
		}
	}
	d := m.work()
	if d.status == Completed || d.status == PartialFailure {
		return m.review(d)
	}
	return d
}

// work returns what is next until there is an answer.
func (m *machine) work() decision {
	switch {
	case m.Chat:
		return m.chat()
	case m.ToolDriven:
		return m.led()
	}
	switch m.Topology {
	case team.RoundRobin:
		return m.roundRobin()
	case team.Pipeline:
		return m.pipeline()
	case team.Swarm:
		return m.swarm()
	case team.GoalDriven:
		return m.goalDriven()
	}
	return m.supervisor()
}

// failures retries tasks that failed, and ends the run where one may not fail.
func (m *machine) failures() (d decision, over bool) {
	for _, t := range m.all {
		if !t.ended() || t.done() {
			continue
		}
		if m.Policies.OnWorkerFailure == team.Retry && t.Attempt <= *m.Policies.MaxWorkerRetries {
			d.tasks = append(d.tasks, t.again())
			continue
		}
		if !t.mayFail() || m.Policies.OnWorkerFailure == team.Abort || m.Policies.RequireAllWorkers {
			return decision{status: Failed, reason: fmt.Sprintf("The task of agent %s was not done: %s", t.AgentID, t.Error)}, true
		}
	}
	return d, false
}

// again returns the next attempt at a task.
func (t *Task) again() Task {
	return Task{
		Slot: t.Slot, Attempt: t.Attempt + 1, AgentID: t.AgentID, Purpose: t.Purpose, Round: t.Round,
		Message: t.Message, Instructions: t.Instructions,
	}
}

// mayFail reports whether the others can do without the task.
func (t *Task) mayFail() bool { return slices.Contains([]string{work, peer, ballot, reply}, t.Purpose) }

// unread returns what follows from an answer that is not in the form that it was asked
// for: it is asked for once more, and then the run fails.
func unread(t *Task, what string) decision {
	if t.Attempt > 1 {
		return decision{status: Failed, reason: fmt.Sprintf(
			"The %s of agent %s could not be read: it is not the JSON that was asked for.", what, t.AgentID)}
	}
	return decision{tasks: []Task{t.again()}}
}

// end ends the run with an answer.
func (m *machine) end(output string) decision {
	d := decision{status: Completed, output: output}
	if slices.ContainsFunc(m.last, func(t Task) bool { return !t.done() }) {
		d.status = PartialFailure
	}
	return d
}

var nothing = decision{status: Failed, reason: "No member of the team did its task."}

// of returns the tasks of a purpose and a round, in order; round 0: of all rounds.
func (m *machine) of(purpose string, round int) (tasks []Task) {
	for _, t := range m.last {
		if t.Purpose == purpose && (round == 0 || t.Round == round) {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// round returns the newest round; 1 if none has begun.
func (m *machine) round() int {
	if len(m.last) == 0 {
		return 1
	}
	return m.last[len(m.last)-1].Round
}

// done returns the tasks that have a result.
func done(tasks []Task) []Task {
	return slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool { return !t.done() })
}

func (m *machine) member(id string) *Member {
	for i := range m.Members {
		if m.Members[i].AgentID == id {
			return &m.Members[i]
		}
	}
	return nil
}

// listed returns the members, a line each, for an agent to read.
func (m *machine) listed(without string) string {
	var b strings.Builder
	for _, w := range m.Members {
		if w.AgentID != without {
			fmt.Fprintf(&b, "- %s: %s\n", w.AgentID, w.Role)
		}
	}
	return b.String()
}

// shared returns a member's task with the answers of others before it, as far as the
// member may read them.
func (m *machine) shared(agentID, text string) string {
	if w := m.member(agentID); !m.Shared || w == nil || !w.ReadOthers {
		return text
	}
	return text + answers(m.last)
}

// answers lists what members answered, for another one to read.
func answers(tasks []Task) string {
	var b strings.Builder
	for _, t := range tasks {
		if t.done() && (t.Purpose == work || t.Purpose == peer) {
			fmt.Fprintf(&b, "\n\n[Answer of %s]\n%s", t.AgentID, shown(t.Text))
		}
	}
	return b.String()
}

// shown returns an answer as others see it: without a hand-off, and cut.
func shown(text string) string {
	text = strings.TrimSpace(handoff.ReplaceAllString(text, ""))
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + " […]"
	}
	return text
}
