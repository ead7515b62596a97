package run

import (
	"slices"

	"github.com/go-json-experiment/json"
)

// Sources of runs beside those that only say so of themselves.
const (
	SourceAPI     = "api"
	SourceSession = "session"
)

// sources are what metadata.source may say for it to count: the member is
// also callers' own.
var sources = []string{"chat_completions", "responses", "schedule", "mcp", "delegation", "spawn", "todo", "sensor"}

// Source is how a run came about: what made it says so in metadata.source. A run
// of which nobody says anything came over the API, on its own or in a session.
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
