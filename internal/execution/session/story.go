package session

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// story is what was said along a line of runs: the entries that callers read,
// and the messages that the model gets. It gets more (a note that the run was
// resumed with) and less (calls without a result, the words of an answer that
// broke off), which is why there are two.
type story struct {
	entries  []Entry
	messages []model.Message
	told     map[model.Origin]bool // what the model got at some time
}

// tell reads the story of some legs.
func (s *Service) tell(ctx context.Context, tenant string, legs []leg) (*story, error) {
	st := &story{entries: []Entry{}, told: map[model.Origin]bool{}}
	if len(legs) == 0 {
		return st, nil
	}
	ids := make([]string, len(legs))
	for i, l := range legs {
		ids[i] = l.runID
	}
	told, err := s.Store.ListJournals(ctx, tenant, ids)
	if err != nil {
		return nil, err
	}
	for i := range told {
		if told[i].Run.RunID == "" {
			continue // the run is gone; what followed it is not
		}
		if err := st.add(&told[i], legs[i].upto); err != nil {
			return nil, err
		}
	}
	st.markFolded()
	return st, nil
}

// markFolded marks what the model got and gets no more: a summary stands for
// it. A summary always takes in the one before it.
func (st *story) markFolded() {
	kept := map[model.Origin]bool{}
	for i := range st.messages {
		kept[st.messages[i].From] = true
	}
	summarised := false
	for i := range slices.Backward(st.entries) {
		e := &st.entries[i]
		from := model.Origin{RunID: e.RunID, StepSeq: e.step}
		if e.Role == roleSystem {
			e.Compacted, summarised = summarised, true
		} else {
			e.Compacted = st.told[from] && !kept[from]
		}
	}
}

// Before implements run.Conversations: what the model is told of the turns
// before a run's own.
func (s *Service) Before(ctx context.Context, r *run.Record) ([]model.Message, error) {
	if r.SessionID == nil {
		return nil, nil
	}
	rec, err := s.Store.Get(ctx, r.TenantID, *r.SessionID)
	if err != nil {
		return nil, err
	}
	p, err := s.plot(ctx, rec)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(p.turns, func(t TimedTurn) bool { return t.RunID == r.RunID })
	if at < 0 {
		return nil, nil // its branch is gone
	}
	legs := p.line(p.turns[at].BranchID)
	own := slices.IndexFunc(legs, func(l leg) bool { return l.runID == r.RunID })
	st, err := s.tell(ctx, r.TenantID, legs[:own])
	if err != nil {
		return nil, err
	}
	return st.messages, nil
}

// add tells a run: its message and its steps up to a seq (0: all, -1: none).
func (st *story) add(told *Told, upto int64) error {
	steps := told.Steps
	if upto != 0 {
		if end := slices.IndexFunc(steps, func(s run.Step) bool { return s.Seq > upto }); end >= 0 {
			steps = steps[:end]
		}
	}
	t := teller{r: &told.Run, asked: map[string]int{}}
	t.message()
	for i := range steps {
		if err := t.step(&steps[i]); err != nil {
			return err
		}
	}
	script, err := run.Transcribe(steps)
	if err != nil {
		return err
	}
	script.CloseTurn()
	for _, m := range script.Messages {
		st.told[m.From] = true
	}
	before := slices.Clip(st.messages)
	if !told.InputRefused() {
		before = append(before, st.opening(t.r, script)...)
	}
	messages := script.After(before)
	if upto != -1 && len(steps) == len(told.Steps) {
		messages = t.settle(messages)
	}
	st.entries, st.messages = append(st.entries, t.entries...), messages
	return nil
}

// opening is what a run begins with: its message, as the checks left it.
func (st *story) opening(r *run.Record, script *run.Transcript) []model.Message {
	in := r.ParsedInput()
	if script.Checked != nil && script.Checked.Changed {
		in.Message = script.Checked.Text
	}
	own := slices.Clone(in.History)
	if in.Message != "" || len(in.Parts) > 0 {
		from := model.Origin{RunID: r.RunID}
		st.told[from] = true
		own = append(own, model.Message{Role: model.User, Text: in.Message, Parts: in.Parts, From: from})
	}
	return own
}

// teller makes the entries of one run.
type teller struct {
	r       *run.Record
	entries []Entry
	replies int
	tools   int
	users   int
	systems int
	asked   map[string]int // tool call id: the entry of the assistant
}

func (t *teller) say(e Entry) {
	e.RunID = t.r.RunID
	t.entries = append(t.entries, e)
}

func (t *teller) message() {
	in := t.r.ParsedInput()
	if in.Message == "" && len(in.Parts) == 0 {
		return // what a trigger sent, without a word of anybody
	}
	t.users++
	t.say(Entry{
		MessageID: t.r.RunID, Role: roleUser, Content: in.Message,
		Timestamp: t.r.CreatedAt, FromTodo: todoOf(t.r), Attachments: attachmentsOf(t.r),
	})
}

func (t *teller) step(step *run.Step) error {
	if len(step.Output) == 0 {
		return nil // it was begun and came to nothing
	}
	at := step.StartedAt
	if step.CompletedAt != nil {
		at = *step.CompletedAt
	}
	switch step.Type {
	case run.StepLLM:
		var out run.LLMOutput
		if err := json.Unmarshal(step.Output, &out); err != nil {
			return err
		}
		if out.Text == "" && len(out.ToolCalls) == 0 {
			return nil
		}
		t.replies++
		for _, c := range out.ToolCalls {
			t.asked[c.ID] = len(t.entries)
		}
		t.say(Entry{
			MessageID: numbered(t.r.RunID+"-reply", t.replies), Role: roleAssistant, Content: out.Text,
			Timestamp: at, Thinking: out.Thinking, step: step.Seq,
		})
	case run.StepTool:
		return t.tool(step, at)
	case run.StepCompaction:
		var out run.CompactionOutput
		if err := json.Unmarshal(step.Output, &out); err != nil || step.Status != run.StepCompleted {
			return err
		}
		t.systems++
		t.say(Entry{
			MessageID: t.r.RunID + "-system-" + strconv.Itoa(t.systems), Role: roleSystem, Content: out.Summary, Timestamp: at, step: step.Seq,
		})
	case run.StepInput:
		var note run.NoteOutput
		if err := json.Unmarshal(step.Output, &note); err != nil {
			return err
		}
		t.users++
		t.say(Entry{
			MessageID: numbered(t.r.RunID+"-user", t.users), Role: roleUser, Content: note.Message, Timestamp: at, step: step.Seq,
		})
	}
	return nil
}

func (t *teller) tool(step *run.Step, at time.Time) error {
	var in run.ToolInput
	var out run.ToolOutput
	if err := json.Unmarshal(step.Input, &in); err != nil {
		return err
	}
	if err := json.Unmarshal(step.Output, &out); err != nil {
		return err
	}
	call := ToolCall{ID: in.ToolCallID, Name: in.Name, Status: "done", Input: in.Arguments, Output: out.Content, DurationMS: int64(step.DurationMS)}
	if out.IsError {
		call.Status, call.Error = "error", &out.Content
	}
	if i, ok := t.asked[in.ToolCallID]; ok {
		t.entries[i].ToolCalls = append(t.entries[i].ToolCalls, call)
	}
	t.tools++
	t.say(Entry{
		MessageID: t.r.RunID + "-tool-" + strconv.Itoa(t.tools), Role: roleTool, Content: out.Content, Timestamp: at, step: step.Seq,
	})
	return nil
}

// numbered is base for the first, and base-2 and so on after it.
func numbered(base string, n int) string {
	if n == 1 {
		return base
	}
	return base + "-" + strconv.Itoa(n)
}

// settle makes the last reply what the run came to: what a guardrail changed or
// kept back is not told in the next turn either. It gives the messages.
func (t *teller) settle(messages []model.Message) []model.Message {
	last := len(messages) - 1
	final := last >= 0 && messages[last].Role == model.Assistant && len(messages[last].ToolCalls) == 0 && messages[last].From.RunID == t.r.RunID
	reply := -1
	for i := range slices.Backward(t.entries) {
		if t.entries[i].Role == roleAssistant {
			reply = i
			break
		}
	}
	switch {
	case reply < 0 || len(t.entries[reply].ToolCalls) > 0:
	case t.r.Status == run.GuardrailBlocked:
		t.entries = slices.Delete(t.entries, reply, reply+1)
		if final {
			return messages[:last]
		}
	case t.r.Status == run.Completed:
		var out run.Output
		if json.Unmarshal(t.r.Output, &out) != nil || out.Text == "" {
			break
		}
		e := &t.entries[reply]
		e.Content, e.CostUSD, e.OutputTruncated = out.Text, t.r.Metrics.TotalCostUSD, out.OutputTruncated || out.Truncated
		if final {
			messages = slices.Clone(messages)
			messages[last].Text = out.Text
		}
	}
	return messages
}
