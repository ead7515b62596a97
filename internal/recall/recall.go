// Package recall is the port through which a run remembers: what the agent
// knows is looked up once, when the run opens, and stands in its journal from
// then on.
package recall

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"
)

// Query is what a run wants to remember.
type Query struct {
	TenantID string
	AgentID  string
	RunID    string
	Text     string         // the message
	Settings jsontext.Value // the agent's memory field
}

// Entry is one thing remembered.
type Entry struct {
	EntryID string  `json:"entry_id"`
	Type    string  `json:"type"`
	Score   float64 `json:"score"`
}

// Found is what was remembered. Text is delivered to the model as a system
// message after the agent's own prompt; empty: there is nothing to deliver.
type Found struct {
	Text    string  `json:"text"`
	Entries []Entry `json:"entries"`
}

// Source remembers. Wants is quick and says whether a run of an agent with
// these settings remembers anything at all.
type Source interface {
	Wants(settings jsontext.Value) bool
	Recall(ctx context.Context, q Query) (Found, error)
}
