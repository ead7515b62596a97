package session

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/model"
	"agentd/internal/run"
)

// story is what was said along a line of runs: the entries that callers read,
// and the messages that the model gets.
type story struct {
	lines []line
	live  []int // lines that the model gets, by their place
}

type line struct {
	entry Entry
	msg   model.Message
}

// tell reads the story of some legs.
func (s *Service) tell(ctx context.Context, tenant string, legs []leg) (*story, error) {
	st := new(story)
	if len(legs) == 0 {
		return st, nil
	}
	ids := make([]string, len(legs))
	for i, l := range legs {
		ids[i] = l.runID
	}
	told, err := s.Store.Tell(ctx, tenant, ids)
	if err != nil {
		return nil, err
	}
	for i := range told {
		if told[i].Run.RunID == "" {
			continue // the run is gone; what follows from it is not
		}
		if err := st.add(&told[i], legs[i].upto); err != nil {
			return nil, err
		}
	}
	return st, nil
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
	return st.messages(), nil
}

func (st *story) entries() []Entry {
	out := make([]Entry, len(st.lines))
	for i, l := range st.lines {
		out[i] = l.entry
	}
	return out
}

func (st *story) messages() []model.Message {
	out := make([]model.Message, len(st.live))
	for i, at := range st.live {
		out[i] = st.lines[at].msg
	}
	return out
}

// teller adds one run to a story.
type teller struct {
	*story
	r       *run.Record
	replies int
	tools   int
	systems int
	asked   map[string]int // tool call id: the line of the assistant
}

// add tells a run: its message and its steps up to a seq (0: all, -1: none).
func (st *story) add(told *Told, upto int64) error {
	t := teller{story: st, r: &told.Run, asked: map[string]int{}}
	first := len(st.lines)
	t.message()
	for i := range told.Steps {
		step := &told.Steps[i]
		if upto != 0 && step.Seq > upto {
			break
		}
		if err := t.step(step); err != nil {
			return err
		}
	}
	t.answer(first)
	st.dropUnanswered(first)
	return nil
}

func (t *teller) say(e Entry, msg model.Message) int {
	e.RunID = t.r.RunID
	t.lines = append(t.lines, line{e, msg})
	t.live = append(t.live, len(t.lines)-1)
	return len(t.lines) - 1
}

func (t *teller) message() {
	in := inputOf(t.r)
	if in.Message == "" && len(in.Parts) == 0 {
		return // a run that a caller went on with, without a word of the user
	}
	var meta struct {
		Todo string `json:"todo_id"`
	}
	_ = json.Unmarshal(t.r.Metadata, &meta) // metadata is the caller's; a todo's own has this
	t.say(Entry{
		MessageID: t.r.RunID, Role: roleUser, Content: in.Message, Timestamp: t.r.CreatedAt, FromTodo: meta.Todo,
	}, model.Message{Role: model.User, Text: in.Message, Parts: in.Parts})
}

func (t *teller) step(step *run.Step) error {
	at := step.StartedAt
	if step.CompletedAt != nil {
		at = *step.CompletedAt
	}
	if len(step.Output) == 0 {
		return nil // it was begun and came to nothing
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
		i := t.say(Entry{
			MessageID: numbered(t.r.RunID+"-reply", t.replies), Role: roleAssistant, Content: out.Text,
			Timestamp: at, Thinking: out.Thinking, step: step.Seq,
		}, model.Message{Role: model.Assistant, Text: out.Text, ToolCalls: out.ToolCalls})
		for _, c := range out.ToolCalls {
			t.asked[c.ID] = i
		}
	case run.StepTool:
		var in run.ToolInput
		var out run.ToolOutput
		if err := json.Unmarshal(step.Input, &in); err != nil {
			return err
		}
		if err := json.Unmarshal(step.Output, &out); err != nil {
			return err
		}
		i, asked := t.asked[in.ToolCallID]
		if !asked {
			return nil // its call is not part of the branch
		}
		t.tools++
		call := ToolCall{ID: in.ToolCallID, Name: in.Name, Status: "done", Input: in.Arguments, Output: out.Content, DurationMS: int64(step.DurationMS)}
		if out.IsError {
			call.Status, call.Error = "error", &out.Content
		}
		t.lines[i].entry.ToolCalls = append(t.lines[i].entry.ToolCalls, call)
		t.say(Entry{
			MessageID: t.r.RunID + "-tool-" + strconv.Itoa(t.tools), Role: roleTool, Content: out.Content, Timestamp: at, step: step.Seq,
		}, model.Message{Role: model.Tool, Text: out.Content, ToolCallID: in.ToolCallID, Name: in.Name})
	case stepCompaction:
		c, ok := readCompaction(step)
		if !ok || c.folded <= 0 || c.folded > len(t.live) {
			return nil
		}
		t.systems++
		for _, i := range t.live[:c.folded] {
			t.lines[i].entry.Compacted = true
		}
		rest := t.live[c.folded:]
		t.live = nil
		t.say(Entry{
			MessageID: t.r.RunID + "-system-" + strconv.Itoa(t.systems), Role: roleSystem, Content: c.summary, Timestamp: at, step: step.Seq,
		}, summaryMessage(c.summary))
		t.live = append(t.live, rest...)
	}
	return nil
}

// numbered is base for the first, and base-2 and so on after it.
func numbered(base string, n int) string {
	if n == 1 {
		return base
	}
	return base + "-" + strconv.Itoa(n)
}

// answer notes with a run's last reply what the run came to.
func (t *teller) answer(first int) {
	if t.r.Status != run.Completed {
		return
	}
	var out run.Output
	if json.Unmarshal(t.r.Output, &out) != nil {
		return
	}
	for i := range slices.Backward(t.lines[first:]) {
		if e := &t.lines[first+i].entry; e.Role == roleAssistant {
			e.CostUSD, e.OutputTruncated = t.r.Metrics.TotalCostUSD, out.OutputTruncated || out.Truncated
			return
		}
	}
}

// dropUnanswered takes out of what the model gets the calls that have no
// result: the run ended before, or the branch leaves before. Endpoints refuse a
// conversation with such calls.
func (st *story) dropUnanswered(first int) {
	answered := map[string]bool{}
	for _, l := range st.lines[first:] {
		if l.msg.Role == model.Tool {
			answered[l.msg.ToolCallID] = true
		}
	}
	st.live = slices.DeleteFunc(st.live, func(i int) bool {
		msg := &st.lines[i].msg
		if i < first || msg.Role != model.Assistant || len(msg.ToolCalls) == 0 {
			return false
		}
		msg.ToolCalls = slices.DeleteFunc(slices.Clone(msg.ToolCalls), func(c model.ToolCall) bool { return !answered[c.ID] })
		return len(msg.ToolCalls) == 0 && strings.TrimSpace(msg.Text) == ""
	})
}
