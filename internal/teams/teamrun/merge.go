package teamrun

import (
	"fmt"
	"slices"
	"strings"

	"agentd/internal/teams/group"
	"agentd/internal/teams/team"
)

// join makes one answer of the results of a round.
func (m *machine) join(works []Task) decision {
	round := works[0].Round
	if len(done(works)) == 0 {
		return nothing
	}
	results := works
	if m.Mode == team.PeerCollab {
		peers := m.of(peer, round)
		if d := m.collaborate(works); len(peers) == 0 && len(d.tasks) > 0 {
			return d
		}
		results = improved(works, peers)
	}
	if m.Mode == team.VoteBased && len(done(results)) > 1 {
		return m.elect(done(results), round)
	}
	var texts []string
	for _, t := range done(results) {
		texts = append(texts, t.Text)
	}
	switch m.Merge {
	case team.Concatenate:
		return m.end(strings.Join(texts, "\n\n"))
	case team.Vote:
		return m.vote(texts, len(results))
	}
	if merged := m.of(merge, round); len(merged) > 0 {
		return m.end(merged[0].Text)
	}
	further := ""
	if m.Topology == team.Supervisor {
		further = " If more has to be done first, answer instead with nothing but the JSON of further tasks. " + m.planning()
	}
	return decision{tasks: []Task{{
		AgentID: m.Supervisor, Purpose: merge, Round: round, Message: m.message + answers(results),
		Instructions: "You lead a team whose members answered the message, as listed below it. Write the answer of the team." + further,
	}}}
}

// collaborate has each member that may read the results of others improve its own.
func (m *machine) collaborate(works []Task) (d decision) {
	results := done(works)
	for i, t := range results {
		w := m.member(t.AgentID)
		if w == nil || !w.ReadOthers || len(results) < 2 {
			continue
		}
		others := slices.Delete(slices.Clone(results), i, i+1)
		d.tasks = append(d.tasks, Task{
			AgentID: t.AgentID, Purpose: peer, Round: t.Round, Message: t.Message + "\n\n[Your answer]\n" + shown(t.Text) + answers(others),
			Instructions: "You are a member of a team. You answered the message, and so did others, as listed below it. " +
				"Write your answer again, as good as it can be with what you learn from theirs.",
		})
	}
	return d
}

// improved returns the results, those that were improved in their new form.
func improved(works, peers []Task) []Task {
	results, rest := slices.Clone(works), done(peers)
	for i := range results {
		at := slices.IndexFunc(rest, func(p Task) bool { return results[i].done() && p.AgentID == results[i].AgentID })
		if at >= 0 {
			results[i].Text = rest[at].Text
			rest = slices.Delete(rest, at, at+1)
		}
	}
	return results
}

// elect has the members vote for one of the results.
func (m *machine) elect(results []Task, round int) decision {
	ballots := m.of(ballot, round)
	if len(ballots) == 0 {
		var b strings.Builder
		for i, t := range results {
			fmt.Fprintf(&b, "\n\n[Answer %d]\n%s", i+1, shown(t.Text))
		}
		var d decision
		for _, w := range m.Members {
			d.tasks = append(d.tasks, Task{
				AgentID: w.AgentID, Purpose: ballot, Round: round, Message: m.message + b.String(),
				Instructions: "You are a member of a team that votes for the best answer to the message. " +
					`Answer with nothing but JSON: {"vote":1} with the number of the answer.`,
			})
		}
		return d
	}
	votes := make([]int, len(results))
	for _, t := range done(ballots) {
		var v struct {
			Vote int `json:"vote"`
		}
		if group.Object(t.Text, &v) && v.Vote >= 1 && v.Vote <= len(results) { // any other one is an abstention
			votes[v.Vote-1]++
		}
	}
	best := slices.Index(votes, slices.Max(votes))
	if share := m.Policies.ConsensusThreshold; votes[best] == 0 || share != nil && float64(votes[best]) < *share*float64(len(ballots)) {
		return decision{status: Failed, reason: fmt.Sprintf(
			"The members did not agree: %d of %d voted for the answer with the most votes.", votes[best], len(ballots))}
	}
	return m.end(results[best].Text)
}

// vote ends the run with the answer that most members gave; of several, the first.
func (m *machine) vote(texts []string, voters int) decision {
	votes, best := map[string]int{}, ""
	for _, text := range texts {
		votes[canonical(text)]++
	}
	for _, text := range texts {
		if best == "" || votes[canonical(text)] > votes[canonical(best)] {
			best = text
		}
	}
	if share := m.Policies.ConsensusThreshold; share != nil && float64(votes[canonical(best)]) < *share*float64(voters) {
		return decision{status: Failed, reason: fmt.Sprintf(
			"The members did not agree: %d of %d gave the most frequent answer.", votes[canonical(best)], voters)}
	}
	return m.end(best)
}

// canonical is a text as it is compared: without case, and with single spaces.
func canonical(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }

// review has the answer scored, and revised while its score is too low.
func (m *machine) review(d decision) decision {
	v := m.Policies.Validation
	if v == nil || !*v.Enabled || m.Chat {
		return d
	}
	n := len(m.reviews)
	if n == 0 {
		return m.score(d.output, 0)
	}
	t := m.reviews[n-1]
	if t.Purpose == revise {
		return m.score(t.Text, t.Round)
	}
	if n > 1 {
		d.output = m.reviews[n-2].Text // the revision that was scored
	}
	var said struct {
		Scores   map[string]float64 `json:"scores"`
		Feedback string             `json:"feedback"`
	}
	if !group.Object(t.Text, &said) || said.Scores == nil {
		return unread(&t, "score")
	}
	score := v.Score(said.Scores)
	switch {
	case score >= *v.MinScore:
		return d
	case !*v.AutoRevise || t.Round >= *v.MaxRounds:
		return decision{status: Failed, reason: fmt.Sprintf(
			"The answer was not accepted: it scored %.2f of the %.2f that policies.validation.min_score needs. %s",
			score, *v.MinScore, clip(said.Feedback))}
	}
	return decision{tasks: []Task{{
		AgentID: m.reviser(), Purpose: revise, Round: t.Round + 1,
		Message:      m.message + "\n\n[Answer]\n" + shown(d.output) + "\n\n[What is wrong with it]\n" + clip(said.Feedback),
		Instructions: "The answer to the message was not accepted, for the reason below it. Write a better one. It has to meet:\n" + criteria(v),
	}}}
}

// score returns the task of the agent that scores an answer; round counts revisions.
func (m *machine) score(answer string, round int) decision {
	v := m.Policies.Validation
	validator := v.ValidatorID
	if validator == "" {
		validator = m.Supervisor
	}
	return decision{tasks: []Task{{
		AgentID: validator, Purpose: validate, Round: round, Message: m.message + "\n\n[Answer]\n" + shown(answer),
		Instructions: "Score the answer to the message by each of these criteria, from 0 to 1. Answer with nothing but JSON: " +
			`{"scores":{"<criterion>":0.5},"feedback":"what is wrong with it"}. The criteria:` + "\n" + criteria(v),
	}}}
}

func criteria(v *team.Validation) string {
	var b strings.Builder
	for _, c := range v.Criteria {
		fmt.Fprintf(&b, "- %s: %s\n", c.Name, c.Description)
	}
	return b.String()
}

// reviser returns the agent that improves an answer: the supervisor, or the member that
// worked last.
func (m *machine) reviser() string {
	if m.Supervisor != "" {
		return m.Supervisor
	}
	return m.last[len(m.last)-1].AgentID
}
