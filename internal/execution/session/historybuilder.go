package session

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/execution/run"
)

// historyBuilder makes the entries of one run. It counts entries by role because
// their message ids are numbered by role.
type historyBuilder struct {
	run     *run.Record
	entries []Entry
	replies int
	tools   int
	users   int
	systems int
	callers map[string]int // tool call id: index of the entry that made the call
	output  string         // the run's output, which replaced its last reply; "": none did
	blocked bool           // the last reply was removed
}

// addRun makes the entries of the run's message and of some of its steps.
func (b *historyBuilder) addRun(steps []run.Step) error {
	b.addMessage()
	for i := range steps {
		if err := b.addStep(&steps[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *historyBuilder) add(e Entry) {
	e.RunID = b.run.RunID
	b.entries = append(b.entries, e)
}

// addMessage adds the message that started the run. A run that a trigger started
// without any text has none.
func (b *historyBuilder) addMessage() {
	in := b.run.ParsedInput()
	if in.Message == "" && len(in.Parts) == 0 {
		return
	}
	b.users++
	b.add(Entry{
		MessageID: b.run.RunID, Role: roleUser, Content: in.Message,
		Timestamp: b.run.CreatedAt, FromTodo: todoOf(b.run), Attachments: attachmentsOf(b.run),
	})
}

func (b *historyBuilder) addStep(step *run.Step) error {
	if len(step.Output) == 0 {
		return nil // it started and produced nothing
	}
	at := step.StartedAt
	if step.CompletedAt != nil {
		at = *step.CompletedAt
	}
	switch step.Type {
	case run.StepLLM:
		return b.addReply(step, at)
	case run.StepTool:
		return b.addToolResult(step, at)
	case run.StepCompaction:
		return b.addSummary(step, at)
	case run.StepInput:
		return b.addNote(step, at)
	}
	return nil
}

func (b *historyBuilder) addReply(step *run.Step, at time.Time) error {
	var out run.LLMOutput
	if err := json.Unmarshal(step.Output, &out); err != nil {
		return err
	}
	if out.Text == "" && len(out.ToolCalls) == 0 {
		return nil
	}
	b.replies++
	for _, c := range out.ToolCalls {
		b.callers[c.ID] = len(b.entries)
	}
	b.add(Entry{
		MessageID: numbered(b.run.RunID+"-reply", b.replies), Role: roleAssistant, Content: out.Text,
		Timestamp: at, Thinking: out.Thinking, step: step.Seq,
	})
	return nil
}

// addToolResult adds the result of a tool call, also to the reply that called it.
func (b *historyBuilder) addToolResult(step *run.Step, at time.Time) error {
	var in run.ToolInput
	var out run.ToolOutput
	if err := json.Unmarshal(step.Input, &in); err != nil {
		return err
	}
	if err := json.Unmarshal(step.Output, &out); err != nil {
		return err
	}
	call := ToolCall{
		ID: in.ToolCallID, Name: in.Name, Status: "done", Input: in.Arguments, Output: out.Content, DurationMS: int64(step.DurationMS),
	}
	if out.IsError {
		call.Status, call.Error = "error", &out.Content
	}
	if i, ok := b.callers[in.ToolCallID]; ok {
		b.entries[i].ToolCalls = append(b.entries[i].ToolCalls, call)
	}
	b.tools++
	b.add(Entry{
		MessageID: b.run.RunID + "-tool-" + strconv.Itoa(b.tools), Role: roleTool, Content: out.Content, Timestamp: at, step: step.Seq,
	})
	return nil
}

// addSummary adds the summary of a completed compaction.
func (b *historyBuilder) addSummary(step *run.Step, at time.Time) error {
	var out run.CompactionOutput
	if err := json.Unmarshal(step.Output, &out); err != nil || step.Status != run.StepCompleted {
		return err
	}
	b.systems++
	b.add(Entry{
		MessageID: b.run.RunID + "-system-" + strconv.Itoa(b.systems), Role: roleSystem, Content: out.Summary, Timestamp: at, step: step.Seq,
	})
	return nil
}

// addNote adds the note with which a waiting run was resumed.
func (b *historyBuilder) addNote(step *run.Step, at time.Time) error {
	var note run.NoteOutput
	if err := json.Unmarshal(step.Output, &note); err != nil {
		return err
	}
	b.users++
	b.add(Entry{
		MessageID: numbered(b.run.RunID+"-user", b.users), Role: roleUser, Content: note.Message, Timestamp: at, step: step.Seq,
	})
	return nil
}

// numbered returns base for the first, then base-2, base-3 and so on.
func numbered(base string, n int) string {
	if n == 1 {
		return base
	}
	return base + "-" + strconv.Itoa(n)
}

// applyOutput makes the last reply the output of the run: what a guardrail
// changed or blocked must not reach later turns either.
func (b *historyBuilder) applyOutput() {
	reply := b.lastReply()
	if reply < 0 || len(b.entries[reply].ToolCalls) > 0 {
		return
	}
	switch b.run.Status {
	case run.GuardrailBlocked:
		b.entries, b.blocked = slices.Delete(b.entries, reply, reply+1), true
	case run.Completed:
		var out run.Output
		if json.Unmarshal(b.run.Output, &out) != nil || out.Text == "" {
			return
		}
		e := &b.entries[reply]
		e.Content, e.CostUSD = out.Text, b.run.Metrics.TotalCostUSD
		e.OutputTruncated = out.OutputTruncated || out.Truncated
		b.output = out.Text
	}
}

// lastReply returns the index of the run's last reply, or -1.
func (b *historyBuilder) lastReply() int {
	for i := range slices.Backward(b.entries) {
		if b.entries[i].Role == roleAssistant {
			return i
		}
	}
	return -1
}

// attachmentsOf returns the files of a run's message.
func attachmentsOf(r *run.Record) []run.Attachment {
	var in struct {
		Attachments []run.Attachment `json:"attachments"`
	}
	if json.Unmarshal(r.Input, &in) != nil {
		return nil // the caller chose the shape of the input
	}
	return in.Attachments
}
