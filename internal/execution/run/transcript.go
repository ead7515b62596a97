package run

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/model"
)

// Transcript is the conversation of a run according to its journal, after the
// messages that the run began with.
type Transcript struct {
	// Messages end with a complete turn. Calls without a result are removed from
	// the turns before the last one: endpoints refuse them.
	Messages []model.Message
	// OpenTurn is the model's last turn, if calls of it have no result yet. Results
	// are the results so far, by tool_call_id. Notes came meanwhile; they follow
	// the results.
	OpenTurn *model.Message
	Results  map[string]model.Message
	Notes    []model.Message

	Answer   *LLMOutput       // the last answer, if nothing follows it
	Recalled *string          // what the agent recalled at the start; nil: no step did
	recalled []string         // the sources of Recalled
	Checked  *GuardrailOutput // the check of the message; nil: no step did

	// OverheadSteps counts the steps that max_steps does not: those that only shortened the
	// conversation (compactions, also failed ones, and calls that the model refused as too
	// long), and those of judges.
	OverheadSteps int64

	compactions []compaction // in order
}

// compaction is a completed step of type compaction.
type compaction struct {
	at      int // how many Messages there were before it
	seq     int64
	fold    contextwindow.Compaction
	through *model.Origin
	summary string
	sources []string
}

// Summary is a summary that a run made. It replaces the summaries before it too,
// whichever run made them.
type Summary struct {
	At          int           // how many of the transcript's Messages precede it
	Seq         int64         // of its step
	Through     *model.Origin // CompactionInput.Through
	KeepRequest bool          // contextwindow.Compaction.KeepRequest
	Text        string
	Sources     []string // CompactionOutput.Sources
}

// Message returns the message that replaces what was summarized.
func (s *Summary) Message() model.Message { return contextwindow.Summary(s.Text, s.Sources...) }

// Summaries returns the summaries of the run in order.
func (t *Transcript) Summaries() []Summary {
	all := make([]Summary, len(t.compactions))
	for i, c := range t.compactions {
		all[i] = Summary{At: c.at, Seq: c.seq, Through: c.through, KeepRequest: c.fold.KeepRequest, Text: c.summary, Sources: c.sources}
	}
	return all
}

// After returns the conversation as a model reads it next: the messages that
// the run began with, then Messages, with summaries in place of what they
// replace of both.
func (t *Transcript) After(opening []model.Message) []model.Message {
	all, at := slices.Clip(opening), 0
	for _, c := range t.compactions {
		all = contextwindow.Apply(append(all, t.Messages[at:c.at]...), c.fold, c.summary, c.sources...)
		at = c.at
	}
	return append(all, t.Messages[at:]...)
}

// Transcribe returns the transcript of a run's steps, which are in order.
func Transcribe(steps []Step) (*Transcript, error) {
	t := &Transcript{Results: map[string]model.Message{}}
	for i := range steps {
		if err := t.add(&steps[i]); err != nil {
			return nil, err
		}
	}
	if len(t.OpenCalls()) == 0 {
		t.CloseTurn()
	}
	return t, nil
}

// add appends a step to the transcript.
func (t *Transcript) add(s *Step) error {
	switch s.Type {
	case StepLLM:
		return t.addAnswer(s)
	case StepTool:
		return t.addResult(s)
	case StepInput:
		return t.addNote(s)
	case StepCompaction:
		return t.addCompaction(s)
	case StepJudge:
		return t.addVerdict(s)
	case StepMemory:
		var found struct {
			Text    string   `json:"text"`
			Sources []string `json:"sources"`
		}
		err := json.Unmarshal(s.Output, &found)
		t.Recalled, t.recalled = &found.Text, found.Sources
		return err
	case StepGuardrail:
		t.Checked = &GuardrailOutput{}
		return json.Unmarshal(s.Output, t.Checked)
	}
	return nil
}

func (t *Transcript) addAnswer(s *Step) error {
	if s.Status != StepCompleted { // the run ended with it, or the conversation was too long
		t.OverheadSteps++
		return nil
	}
	var out LLMOutput
	if err := json.Unmarshal(s.Output, &out); err != nil {
		return err
	}
	t.CloseTurn()
	for i := range out.ToolCalls {
		out.ToolCalls[i].Redacted = slices.Contains(out.Redacted, out.ToolCalls[i].ID)
	}
	m := model.Message{Role: model.Assistant, Text: out.Text, ToolCalls: out.ToolCalls, From: s.origin()}
	s.Opaque.Restore(&m)
	if len(out.ToolCalls) > 0 {
		t.OpenTurn, t.Answer = &m, nil
		return nil
	}
	t.Messages, t.Answer = append(t.Messages, m), &out
	return nil
}

func (t *Transcript) addResult(s *Step) error {
	if len(s.Output) == 0 { // the run ended while the call was under way
		return nil
	}
	var in ToolInput
	var out ToolOutput
	if err := unmarshalStep(s, &in, &out); err != nil {
		return err
	}
	m := ToolMessage(in, out)
	m.From = s.origin()
	t.Results[in.ToolCallID] = m
	return nil
}

func (t *Transcript) addNote(s *Step) error {
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
	return nil
}

func (t *Transcript) addCompaction(s *Step) error {
	t.CloseTurn() // a compaction, like a call of the model, follows a complete turn
	t.OverheadSteps++
	if s.Status != StepCompleted {
		return nil
	}
	var in CompactionInput
	var out CompactionOutput
	if err := unmarshalStep(s, &in, &out); err != nil {
		return err
	}
	t.compactions = append(t.compactions, compaction{len(t.Messages), s.Seq, in.Compaction, in.Through, out.Summary, out.Sources})
	return nil
}

// addVerdict appends what a judge wants to be better.
func (t *Transcript) addVerdict(s *Step) error {
	t.OverheadSteps++
	if s.Status != StepCompleted {
		return nil
	}
	var out JudgeOutput
	if err := json.Unmarshal(s.Output, &out); err != nil || out.Feedback == "" {
		return err
	}
	t.Messages, t.Answer = append(t.Messages, model.Message{Role: model.User, Text: out.Feedback, From: s.origin()}), nil
	return nil
}

func unmarshalStep(s *Step, in, out any) error {
	if err := json.Unmarshal(s.Input, in); err != nil {
		return err
	}
	return json.Unmarshal(s.Output, out)
}

// OpenCalls returns the calls of the last turn that have no result, in order.
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

// CloseTurn completes the last turn: results follow in the order of the calls,
// whichever ended first, and calls without a result are removed.
func (t *Transcript) CloseTurn() { t.CloseTurnExcept(func(string) bool { return false }) }

// CloseTurnExcept is CloseTurn for a turn with calls whose results come later:
// those of a caller's tools.
func (t *Transcript) CloseTurnExcept(later func(call string) bool) {
	if t.OpenTurn == nil {
		return
	}
	turn := *t.OpenTurn
	calls := turn.ToolCalls
	turn.ToolCalls = nil
	var results []model.Message
	for _, c := range calls {
		r, done := t.Results[c.ID]
		if done || later(c.ID) {
			turn.ToolCalls = append(turn.ToolCalls, c)
		}
		if done {
			results = append(results, r)
		}
	}
	if len(turn.ToolCalls) > 0 || strings.TrimSpace(turn.Text) != "" {
		t.Messages = append(t.Messages, turn)
	}
	t.Messages = append(append(t.Messages, results...), t.Notes...)
	t.OpenTurn, t.Notes, t.Results = nil, nil, map[string]model.Message{}
}

// ConversationAfter returns a conversation with what a run adds to it, as a model
// reads it: the user's message, as the guardrails left it, and what followed.
// Calls without a result are left out. A summary of the run replaces messages
// before it and of its own.
func ConversationAfter(before []model.Message, r *Record, steps []Step) ([]model.Message, error) {
	return ContinuedConversation(slices.Clip(before), r, steps, "", func(string) bool { return false })
}

// ContinuedConversation is ConversationAfter for a run that its caller continues:
// calls of the last turn stay if their results come later, and so do standing
// instructions. It may append to before, and change it.
func ContinuedConversation(
	before []model.Message, r *Record, steps []Step, standing string, later func(call string) bool,
) ([]model.Message, error) {
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
		own = append(own, model.Message{
			Role: model.User, Text: in.Message, Parts: in.Parts, From: model.Origin{RunID: r.RunID}, Sources: t.Sources(r),
		})
	}
	if own = WithInstructions(own, standing); len(t.compactions) == 0 {
		return append(own, t.Messages...), nil // without a copy for each run of a long chain
	}
	return t.After(own), nil
}

// WithInstructions puts a caller's instructions in front of the user's last
// message. A conversation without one gets them as a message. It changes turns.
func WithInstructions(turns []model.Message, instructions string) []model.Message {
	if instructions == "" {
		return turns
	}
	return WithPreface(turns, "Instructions of the caller:\n"+instructions)
}

// WithPreface puts a text in front of the user's last message. A conversation without
// one gets it as a message. It changes turns.
func WithPreface(turns []model.Message, text string) []model.Message {
	if text == "" {
		return turns
	}
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

// Sources returns the untrusted sources that a run has read beside those of its
// messages: from what started it, from its memory, and, for a run that completed, all
// that it had by then.
func (t *Transcript) Sources(r *Record) []string {
	var out Output
	if bytes.Contains(r.Output, []byte(`"sources":[`)) { // few have any
		_ = json.Unmarshal(r.Output, &out) // agentd wrote it
	}
	return model.JoinSources(r.Options.Sources, t.recalled, out.Sources)
}

// SourcesOfResults returns the untrusted sources of Results.
func (t *Transcript) SourcesOfResults() (all []string) {
	for _, m := range t.Results {
		all = model.JoinSources(all, m.Sources)
	}
	return all
}

// Citations returns the passages that a run's tools have found, in the messages of its
// conversation and in the results that are not part of it yet.
func (t *Transcript) Citations(runID string, messages []model.Message) (all []model.Citation) {
	for i := range messages {
		if m := &messages[i]; len(m.Citations) > 0 && m.From.RunID == runID {
			all = model.JoinCitations(all, m.Citations)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.Results)) {
		all = model.JoinCitations(all, t.Results[id].Citations)
	}
	return all
}

// Journal is a run with all its steps.
type Journal struct {
	Run   Record
	Steps []Step
}

// InputRefused reports whether policy kept the run's input from the model. What
// continues the run must not send it to a model either.
func (t *Journal) InputRefused() bool {
	rejected := t.Run.Status == Rejected && t.Run.ErrorCode != CodeApprovalRejected
	return rejected || slices.ContainsFunc(t.Steps, func(s Step) bool {
		return s.Type == StepGuardrail && s.Status == StepFailed
	})
}

// ParsedInput returns a run's input as a value.
func (r *Record) ParsedInput() *Input {
	if r.Parsed != nil {
		in := *r.Parsed
		return &in
	}
	in := new(Input)
	// Other input was refused when the run was created, or is a trigger's own
	// payload, of which only the message counts.
	_ = json.Unmarshal(r.Input, in)
	return in
}

// StoredInput returns a run's input as it is stored. It differs from ParsedInput where the
// tenant does not store what the caller wrote.
func (r *Record) StoredInput() *Input {
	stored := Record{Run: Run{Input: r.Input}}
	return stored.ParsedInput()
}

// ToolMessage returns a call's result as the model gets it.
func ToolMessage(in ToolInput, out ToolOutput) model.Message {
	return model.Message{
		Role: model.Tool, Text: out.Content, ToolCallID: in.ToolCallID, Name: in.Name, Sources: out.Sources, Citations: out.Citations,
	}
}

func (s *Step) origin() model.Origin { return model.Origin{RunID: s.RunID, StepSeq: s.Seq} }
