package session

import (
	"iter"
	"slices"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// chapter is the part of a run that a branch contains, as entries and as
// messages.
type chapter struct {
	builder    historyBuilder
	opening    []model.Message // what the run began with; nil where policy kept it from the model
	transcript *run.Transcript
	carries    bool // messages came with the request, which have no origin
}

// readChapter reads a run: its message and its steps up to a seq (0: all, -1:
// none).
func readChapter(r *run.Journal, lastStep int64) (*chapter, error) {
	steps := r.Steps
	if lastStep != 0 {
		if end := slices.IndexFunc(steps, func(s run.Step) bool { return s.Seq > lastStep }); end >= 0 {
			steps = steps[:end]
		}
	}
	c := &chapter{builder: historyBuilder{run: &r.Run, callers: map[string]int{}}}
	if err := c.builder.addRun(steps); err != nil {
		return nil, err
	}
	if lastStep != -1 && len(steps) == len(r.Steps) {
		c.builder.applyOutput()
	}
	var err error
	if c.transcript, err = run.Transcribe(steps); err != nil {
		return nil, err
	}
	c.transcript.CloseTurn()
	if !r.InputRefused() {
		c.open()
	}
	return c, nil
}

// open sets what the run begins with: the messages that came with the request,
// and its message as the input guardrails left it.
func (c *chapter) open() {
	r := c.builder.run
	in := r.ParsedInput()
	if checked := c.transcript.Checked; checked != nil && checked.Changed {
		in.Message = checked.Text
	}
	c.opening, c.carries = slices.Clone(in.History), len(in.History) > 0
	if in.Message != "" || len(in.Parts) > 0 {
		from := model.Origin{RunID: r.RunID}
		c.opening = append(c.opening, model.Message{
			Role: model.User, Text: in.Message, Parts: in.Parts, From: from, Sources: c.transcript.Sources(r),
		})
	}
}

func (c *chapter) entries() []Entry { return c.builder.entries }

// summary returns the newest summary of the run; nil if it made none.
func (c *chapter) summary() *run.Summary {
	all := c.transcript.Summaries()
	if len(all) == 0 {
		return nil
	}
	return &all[len(all)-1]
}

// messages returns all messages of the run, also those that a summary replaced.
func (c *chapter) messages() []model.Message {
	return c.corrected(slices.Concat(c.opening, c.transcript.Messages))
}

// origins yields the origin of every message of the run that a model has read at
// some time.
func (c *chapter) origins() iter.Seq[model.Origin] {
	return func(yield func(model.Origin) bool) {
		for _, all := range [][]model.Message{c.opening, c.transcript.Messages} {
			for i := range all {
				if from := all[i].From; from.RunID != "" && !yield(from) {
					return
				}
			}
		}
	}
}

// corrected returns a conversation that ends with the run, with the run's output in
// place of its last reply. It changes messages.
func (c *chapter) corrected(messages []model.Message) []model.Message {
	b := &c.builder
	last := len(messages) - 1
	if last < 0 || messages[last].Role != model.Assistant || len(messages[last].ToolCalls) > 0 ||
		messages[last].From.RunID != b.run.RunID {
		return messages
	}
	switch {
	case b.blocked:
		return messages[:last]
	case b.output != "":
		messages[last].Text = b.output
	}
	return messages
}
