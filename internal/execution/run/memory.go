package run

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"
)

// MemoryQuery selects the memories of an agent that fit a message.
type MemoryQuery struct {
	TenantID string
	AgentID  string
	RunID    string
	Text     string         // the message
	Settings jsontext.Value // the agent's memory field
}

// RecalledEntry is a memory entry that was sent to the model.
type RecalledEntry struct {
	EntryID string  `json:"entry_id"`
	Type    string  `json:"type"`
	Score   float64 `json:"score"`
}

// Recalled is the result of a MemoryQuery. Text is sent to the model as a system
// message after the agent's own prompt; empty sends nothing.
type Recalled struct {
	Text    string          `json:"text"`
	Entries []RecalledEntry `json:"entries"`
	Sources []string        `json:"sources,omitzero"` // untrusted ones that the entries have content of
}

// MemorySource is the port through which a run reads its agent's memory: once,
// when the run opens; the result is kept in the journal.
type MemorySource interface {
	// Wants reports, without any I/O, whether an agent with these settings has
	// memory at all.
	Wants(settings jsontext.Value) bool
	// Recall returns what fits q.
	Recall(ctx context.Context, q MemoryQuery) (Recalled, error)
}
