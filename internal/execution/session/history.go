package session

import (
	"slices"

	"agentd/internal/execution/run"
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

// add adds a run: its message and its steps up to a seq (0: all, -1: none).
func (h *history) add(r *run.Journal, lastStep int64) error {
	steps := r.Steps
	if lastStep != 0 {
		if end := slices.IndexFunc(steps, func(s run.Step) bool { return s.Seq > lastStep }); end >= 0 {
			steps = steps[:end]
		}
	}
	b := historyBuilder{run: &r.Run, callers: map[string]int{}}
	b.addMessage()
	for i := range steps {
		if err := b.addStep(&steps[i]); err != nil {
			return err
		}
	}
	transcript, err := run.Transcribe(steps)
	if err != nil {
		return err
	}
	transcript.CloseTurn()
	for _, m := range transcript.Messages {
		h.origins[m.From] = true
	}
	before := slices.Clip(h.messages)
	if !r.InputRefused() {
		before = append(before, h.opening(b.run, transcript)...)
	}
	messages := transcript.After(before)
	if lastStep != -1 && len(steps) == len(r.Steps) {
		messages = b.applyOutput(messages)
	}
	h.entries, h.messages = append(h.entries, b.entries...), messages
	return nil
}

// opening returns the messages that a run begins with: those that came with the
// request, and its message as the input guardrails left it.
func (h *history) opening(r *run.Record, transcript *run.Transcript) []model.Message {
	in := r.ParsedInput()
	if transcript.Checked != nil && transcript.Checked.Changed {
		in.Message = transcript.Checked.Text
	}
	messages := slices.Clone(in.History)
	if in.Message != "" || len(in.Parts) > 0 {
		from := model.Origin{RunID: r.RunID}
		h.origins[from] = true
		messages = append(messages, model.Message{Role: model.User, Text: in.Message, Parts: in.Parts, From: from})
	}
	return messages
}
