package model

import "slices"

// Untrusted sources: who writes what can be read there is not known to the company. The
// others are named after their servers and agents: mcp:<server>, message:<agent>.
const (
	SourceWeb    = "web"
	SourceFile   = "file"
	SourceSensor = "sensor"
	// SourceVisitor is a stranger who talks with a public agent.
	SourceVisitor = "visitor"
)

// SourceMessage is the source of what an agent writes to another.
func SourceMessage(agentID string) string { return "message:" + agentID }

// JoinSources returns the names of sources that any of the lists has, sorted and
// each once. It returns one of the lists where the others add nothing.
func JoinSources(lists ...[]string) (all []string) {
	for _, l := range lists {
		switch {
		case len(l) == 0 || containsAll(all, l):
		case len(all) == 0 && slices.IsSorted(l) && len(slices.Compact(slices.Clone(l))) == len(l):
			all = slices.Clip(l)
		default:
			all = append(slices.Clone(all), l...)
			slices.Sort(all)
			all = slices.Clip(slices.Compact(all))
		}
	}
	return all
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// SourcesOf returns the sources of messages.
func SourcesOf(messages []Message) (all []string) {
	for i := range messages {
		if s := messages[i].Sources; len(s) > 0 {
			all = JoinSources(all, s)
		}
	}
	return all
}
