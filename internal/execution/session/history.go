package session

import (
	"slices"

	"agentd/internal/kernel/model"
)

// history is the history of a path: the entries that the API shows, and the
// messages that the model reads. They differ: the model does not read calls
// without a result or the text of an answer that broke off, and it reads a
// summary instead of the messages that it replaced.
type history struct {
	entries  []Entry
	messages []model.Message
	origins  map[model.Origin]bool // of every message that the model has read at some time
}

func newHistory() *history {
	return &history{entries: []Entry{}, origins: map[model.Origin]bool{}}
}

// markCompacted marks the entries that the model has read and reads no more,
// because a summary replaced them. A summary always includes the one before it.
func (h *history) markCompacted() {
	current := map[model.Origin]bool{}
	for i := range h.messages {
		current[h.messages[i].From] = true
	}
	summarized := false
	for i := range slices.Backward(h.entries) {
		e := &h.entries[i]
		from := model.Origin{RunID: e.RunID, StepSeq: e.step}
		if e.Role == roleSystem {
			e.Compacted, summarized = summarized, true
		} else {
			e.Compacted = h.origins[from] && !current[from]
		}
	}
}

// add adds a run.
func (h *history) add(c *chapter) {
	for o := range c.origins() {
		h.origins[o] = true
	}
	h.entries, h.messages = append(h.entries, c.entries()...), append(h.messages, c.opening...)
	if c.summary() != nil {
		h.messages = c.transcript.After(h.messages)
	} else { // without a copy of the whole for each run
		h.messages = append(h.messages, c.transcript.Messages...)
	}
	h.messages = c.corrected(h.messages)
}
