package memory

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/content/textindex"
	"agentd/internal/kernel/model"
)

// settings is the decoded part of an agent's memory field. The field is free JSON:
// a member of another type counts as absent.
type settings struct {
	enabled     bool
	types       []string // nil: any
	most        int
	strategy    textindex.Strategy
	limit       int
	autoExtract bool
	extraction  model.Spec // zero: the agent's own
	halfLife    time.Duration
	core        core
}

// Defaults are the operator's of how much agents remember.
type Defaults struct {
	Entries int // of an agent without memory.max_entries
	Most    int // entries of any agent
	Recall  int // entries that a run recalls without memory.retrieval_limit
}

// read decodes the memory field of an agent.
func (s *Service) read(raw []byte) settings { return readSettings(raw, s.Defaults()) }

func readSettings(raw []byte, d Defaults) settings {
	s := settings{most: min(d.Entries, d.Most), strategy: textindex.Hybrid, limit: d.Recall}
	members := object(raw)
	var days float64 = 30
	var decays bool
	var strategy string
	var most, limit float64
	read(members, "enabled", &s.enabled)
	read(members, "types", &s.types)
	read(members, "max_entries", &most)
	read(members, "retrieval_strategy", &strategy)
	read(members, "retrieval_limit", &limit)
	read(members, "auto_extract", &s.autoExtract)
	read(members, "decay_enabled", &decays)
	read(members, "decay_half_life_days", &days)
	if !read(members, "extraction_model", &s.extraction.ModelRef) {
		read(members, "extraction_model", &s.extraction)
	}
	if most >= 1 {
		s.most = int(min(most, float64(d.Most)))
	}
	if limit >= 1 {
		s.limit = int(min(limit, pageMost))
	}
	switch textindex.Strategy(strategy) {
	case textindex.Relevance, textindex.Recency:
		s.strategy = textindex.Strategy(strategy)
	}
	if decays && days > 0 {
		s.halfLife = time.Duration(min(days, 36_500) * 24 * float64(time.Hour))
	}
	s.types = slices.DeleteFunc(s.types, func(t string) bool { return !slices.Contains(Types, t) })
	if len(s.types) == 0 {
		s.types = nil
	}
	s.core = readCore(members["core_memory"])
	return s
}

// wanted returns the types that a run recalls. Notes are always among them: they
// were saved on purpose.
func (s settings) wanted() []string {
	if s.types == nil || slices.Contains(s.types, Note) {
		return s.types
	}
	return append(slices.Clone(s.types), Note)
}

// extracted reports whether entries of a type are extracted.
func (s settings) extracted(kind string) bool {
	return kind != Note && slices.Contains(Types, kind) && (s.types == nil || slices.Contains(s.types, kind))
}

func object(raw []byte) map[string]jsontext.Value {
	var members map[string]jsontext.Value
	if len(raw) == 0 || json.Unmarshal(raw, &members) != nil {
		return nil
	}
	return members
}

// read sets v if there is a member of its type, and leaves it unchanged otherwise.
func read[T any](members map[string]jsontext.Value, name string, v *T) bool {
	var got T
	raw, ok := members[name]
	if !ok || json.Unmarshal(raw, &got) != nil {
		return false
	}
	*v = got
	return true
}
