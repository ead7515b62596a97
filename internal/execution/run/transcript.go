package run

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/model"
)

// Transcript is the conversation that a run's journal tells, after what the
// run opened with.
type Transcript struct {
	// Messages end with a turn that is complete. Calls that never got a result
	// are left out of what came before the last turn: endpoints refuse them.
	Messages []model.Message
	// OpenTurn is the model's last turn, where calls of it have no result yet, and
	// Results are those that there are, by tool_call_id. Notes were given
	// meanwhile; they follow the results.
	OpenTurn *model.Message
	Results  map[string]model.Message
	Notes    []model.Message

	Answer   *LLMOutput       // the last word, if it is the model's and asks for nothing
	Recalled *string          // what the agent remembered at the start; nil: it was not asked
	Checked  *GuardrailOutput // the check of the message; nil: there was none

	// OverheadSteps counts the steps that were about the conversation's length: folds,
	// also those that failed, and calls that the model refused as too long.
	OverheadSteps int64

	compactions []compaction // in order
}

// compaction is a completed step of type compaction, and how many Messages there
// were then.
type compaction struct {
	at      int
	fold    contextwindow.Compaction
	summary string
}

// After gives the conversation as a model reads it next: what the run opened
// with, then Messages, with summaries in place of what was folded of both.
func (t *Transcript) After(opening []model.Message) []model.Message {
	all, at := slices.Clip(opening), 0
	for _, f := range t.compactions {
		all = contextwindow.Apply(append(all, t.Messages[at:f.at]...), f.fold, f.summary)
		at = f.at
	}
	return append(all, t.Messages[at:]...)
}

// Transcribe reads a run's steps, in order.
func Transcribe(steps []Step) (*Transcript, error) {
	t := &Transcript{Results: map[string]model.Message{}}
	for i := range steps {
		if err := t.read(&steps[i]); err != nil {
			return nil, err
		}
	}
	if len(t.OpenCalls()) == 0 {
		t.CloseTurn()
	}
	return t, nil
}

func (t *Transcript) read(s *Step) error {
	switch s.Type {
	case StepLLM:
		if s.Status != StepCompleted { // the run ended with it, or it was too long
			t.OverheadSteps++
			return nil
		}
		var out LLMOutput
		if err := json.Unmarshal(s.Output, &out); err != nil {
			return err
		}
		t.CloseTurn()
		m := model.Message{Role: model.Assistant, Text: out.Text, ToolCalls: out.ToolCalls, From: s.origin()}
		if len(out.ToolCalls) > 0 {
			t.OpenTurn, t.Answer = &m, nil
			return nil
		}
		t.Messages, t.Answer = append(t.Messages, m), &out
	case StepTool:
		var in ToolInput
		var out ToolOutput
		if err := json.Unmarshal(s.Input, &in); err != nil {
			return err
		}
		if err := json.Unmarshal(s.Output, &out); err != nil {
			return err
		}
		m := ToolMessage(in, out)
		m.From = s.origin()
		t.Results[in.ToolCallID] = m
	case StepInput:
		var note NoteOutput
		if err := json.Unmarshal(s.Output, &note); err != nil {
			return err
		}
		m := model.Message{Role: model.User, Text: note.Message, From: s.origin()}
		t.Answer = nil
		if t.OpenTurn != nil {
			t.Notes = append(t.Notes, m)
			return nil
		}
		t.Messages = append(t.Messages, m)
	case StepCompaction:
		t.CloseTurn() // the model is asked when a turn is complete, and so is this
		t.OverheadSteps++
		if s.Status != StepCompleted {
			return nil
		}
		var in CompactionInput
		var out CompactionOutput
		if err := json.Unmarshal(s.Input, &in); err != nil {
			return err
		}
		if err := json.Unmarshal(s.Output, &out); err != nil {
			return err
		}
		t.compactions = append(t.compactions, compaction{len(t.Messages), in.Compaction, out.Summary})
	case StepMemory:
		var found struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(s.Output, &found); err != nil {
			return err
		}
		t.Recalled = &found.Text
	case StepGuardrail:
		t.Checked = &GuardrailOutput{}
		return json.Unmarshal(s.Output, t.Checked)
	}
	return nil
}

// OpenCalls gives the calls of the last turn that have no result, in order.
func (t *Transcript) OpenCalls() (open []model.ToolCall) {
	if t.OpenTurn == nil {
		return nil
	}
	for _, c := range t.OpenTurn.ToolCalls {
		if _, done := t.Results[c.ID]; !done {
			open = append(open, c)
		}
	}
	return open
}

// CloseTurn completes the last turn: results come in the order of the calls,
// whatever finished first, and calls without one are taken back.
func (t *Transcript) CloseTurn() { t.CloseTurnExcept(func(string) bool { return false }) }

// CloseTurnExcept is Close, where some calls of the last turn have results that come
// after it: those of a caller's tools.
func (t *Transcript) CloseTurnExcept(later func(call string) bool) {
	if t.OpenTurn == nil {
		return
	}
	asking := *t.OpenTurn
	calls := asking.ToolCalls
	asking.ToolCalls = nil
	var results []model.Message
	for _, c := range calls {
		r, done := t.Results[c.ID]
		if done || later(c.ID) {
			asking.ToolCalls = append(asking.ToolCalls, c)
		}
		if done {
			results = append(results, r)
		}
	}
	if len(asking.ToolCalls) > 0 || strings.TrimSpace(asking.Text) != "" {
		t.Messages = append(t.Messages, asking)
	}
	t.Messages = append(append(t.Messages, results...), t.Notes...)
	t.OpenTurn, t.Notes, t.Results = nil, nil, map[string]model.Message{}
}

// ConversationAfter is a conversation with what a run adds to it, as a model
// reads it: the user's message, as the checks left it, and what came of it.
// Calls without a result are left out. What the run folded, of what was said
// before it and of its own, has given way to the summary.
func ConversationAfter(before []model.Message, r *Record, steps []Step) ([]model.Message, error) {
	return ContinuedConversation(slices.Clip(before), r, steps, "", func(string) bool { return false })
}

// ContinuedConversation is ConversationAfter for a run whose caller goes on: calls of the
// last turn stay that have results later, and so do standing instructions. It
// may append to before, and change it.
func ContinuedConversation(before []model.Message, r *Record, steps []Step, standing string, later func(call string) bool) ([]model.Message, error) {
	t, err := Transcribe(steps)
	if err != nil {
		return nil, err
	}
	t.CloseTurnExcept(later)
	in := r.ParsedInput()
	if t.Checked != nil && t.Checked.Changed {
		in.Message = t.Checked.Text
	}
	own := append(before, in.History...)
	if in.Message != "" || len(in.Parts) > 0 {
		own = append(own, model.Message{Role: model.User, Text: in.Message, Parts: in.Parts, From: model.Origin{RunID: r.RunID}})
	}
	if own = WithInstructions(own, standing); len(t.compactions) == 0 {
		return append(own, t.Messages...), nil // without a copy for each run of a long line
	}
	return t.After(own), nil
}

// WithInstructions puts a caller's instructions in front of the last message of the
// user. A conversation without one gets them as one. It changes turns.
func WithInstructions(turns []model.Message, instructions string) []model.Message {
	if instructions == "" {
		return turns
	}
	text := "Instructions of the caller:\n" + instructions
	for i := range slices.Backward(turns) {
		m := &turns[i]
		switch {
		case m.Role != model.User:
			continue
		case m.Parts != nil: // which replace the text
			m.Parts = append([]jsontext.Value{model.TextPart(text)}, m.Parts...)
		case m.Text == "":
			m.Text = text
		default:
			m.Text = text + "\n\n" + m.Text
		}
		return turns
	}
	return append(turns, model.Message{Role: model.User, Text: text})
}

// Journal is a run with its steps.
type Journal struct {
	Run   Record
	Steps []Step
}

// InputRefused says whether policy kept a run's input from the model: whatever goes
// on from the run does not tell it either.
func (t *Journal) InputRefused() bool {
	return t.Run.Status == Rejected && t.Run.ErrorCode != CodeApprovalRejected || slices.ContainsFunc(t.Steps, func(s Step) bool {
		return s.Type == StepGuardrail && s.Status == StepFailed
	})
}

// ParsedInput reads a run's input.
func (r *Record) ParsedInput() *Input {
	if r.Parsed != nil {
		in := *r.Parsed
		return &in
	}
	in := new(Input)
	// Input that is not of this shape was refused when the run was made, or is a
	// trigger's own payload, whose message is what counts.
	_ = json.Unmarshal(r.Input, in)
	return in
}

// ToolMessage is a call's result as the model gets it.
func ToolMessage(in ToolInput, out ToolOutput) model.Message {
	return model.Message{Role: model.Tool, Text: out.Content, ToolCallID: in.ToolCallID, Name: in.Name}
}

func (s *Step) origin() model.Origin { return model.Origin{RunID: s.RunID, StepSeq: s.Seq} }
