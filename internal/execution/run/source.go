package run

import (
	"agentd/internal/kernel/quota"

	"slices"

	"github.com/go-json-experiment/json"
)

// Sources of runs without a metadata.source.
const (
	SourceAPI     = "api"
	SourceSession = "session"
	// SourceEvaluation is that of runs that an evaluation starts for its cases.
	SourceEvaluation = "evaluation"
)

// sources are the values of metadata.source that count. Callers may use the
// member for other values of their own.
var sources = []string{
	"chat_completions", "responses", "schedule", "mcp", "delegation", "spawn", "todo", "sensor", "team", "a2a", "public", "mission",
	"initiative", "marketplace", SourceEvaluation,
}

// EndUse returns what is counted of how a run ended.
func (r *Record) EndUse() quota.Use {
	u := quota.Use{DurationMS: int64(r.Metrics.DurationMS)}
	switch r.Status {
	case Completed:
		u.Completed = 1
	case Cancelled:
		u.Cancelled = 1
	default:
		u.Failures = 1
	}
	return u
}

// Source returns how a run was started. What starts runs sets metadata.source;
// other runs were created by the API, alone or in a session.
func (r *Record) Source() string {
	var meta struct {
		Source string `json:"source"`
	}
	if len(r.Metadata) > 2 && json.Unmarshal(r.Metadata, &meta) == nil && slices.Contains(sources, meta.Source) {
		return meta.Source
	}
	if r.SessionID != nil {
		return SourceSession
	}
	return SourceAPI
}
