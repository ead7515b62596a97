package teamrun

import (
	"regexp"
	"strings"
)

// roundRobin has the members speak in turn. After the last round, or when every
// member has repeated itself, their answers of the last round are joined.
func (m *machine) roundRobin() decision {
	turns := m.of(work, 0)
	n, size := len(turns), len(m.Members)
	round, at := n/size, n%size
	if at == 0 && n > 0 {
		of := turns[n-size:]
		repeated := round > 1 && *m.Policies.EarlyTermination
		for i := range of {
			repeated = repeated && of[i].Text == turns[max(0, n-2*size)+i].Text
		}
		if repeated || round >= m.Policies.MaxRounds {
			if merged := m.of(merge, 0); len(merged) > 0 {
				return m.end(merged[0].Text)
			}
			return m.join(of)
		}
	}
	w := m.Members[at]
	return decision{tasks: []Task{{AgentID: w.AgentID, Purpose: work, Round: round + 1, Message: m.shared(w.AgentID, m.message)}}}
}

// pipeline has each member work on the result of the one before. The last result is
// the answer.
func (m *machine) pipeline() decision {
	input, has := m.message, false
	for _, t := range m.last {
		if t.done() {
			input, has = t.Text, true
		}
	}
	n := len(m.last)
	switch {
	case n < len(m.Members):
		return decision{tasks: []Task{{AgentID: m.Members[n].AgentID, Purpose: work, Round: n + 1, Message: input}}}
	case !has:
		return nothing
	}
	return m.end(input)
}

var handoff = regexp.MustCompile(`(?m)^HANDOFF:[ \t]*(\S+)[ \t]*$`)

// swarm has one member at a time work. One that answers with a line HANDOFF: and the id
// of another member hands off to it.
func (m *machine) swarm() decision {
	n := len(m.last)
	if n == 0 {
		return decision{tasks: []Task{m.turn(m.Initial, 1, m.message)}}
	}
	t := m.last[n-1]
	if !t.done() {
		return nothing
	}
	text := strings.TrimSpace(handoff.ReplaceAllString(t.Text, ""))
	to := handoff.FindStringSubmatch(t.Text)
	if to == nil || m.member(to[1]) == nil || to[1] == t.AgentID || n > m.Handoffs {
		return m.end(text)
	}
	seen := m.last
	if m.Summary {
		seen = m.last[n-1:]
	}
	return decision{tasks: []Task{m.turn(to[1], n+1, m.message+answers(seen))}}
}

func (m *machine) turn(agentID string, round int, message string) Task {
	return Task{
		AgentID: agentID, Purpose: work, Round: round, Message: message,
		Instructions: "You are a member of a team. Answer the message. To let another member go on, end with a line " +
			"\"HANDOFF: <agent_id>\". The other members:\n" + m.listed(agentID),
	}
}
