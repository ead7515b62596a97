package responsesclient

import (
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// decoder reads an answer, streamed or whole.
type decoder struct {
	modelcall.Answer
	open    []openItem
	opaque  int // bytes of reasoning that goes back
	refused bool
	reason  string // why the answer is incomplete
}

// openItem is an item of the answer. What an event repeats at its end is not added again.
type openItem struct {
	modelcall.Place
	kind      string
	arguments int
	summaries int  // parts of the summary
	thought   bool // the readable reasoning came in pieces
	call      bool // it was added
	closed    bool
}

type answerItem struct {
	Type      string         `json:"type"`
	ID        modelcall.Text `json:"id"`
	CallID    modelcall.Text `json:"call_id"`
	Name      modelcall.Text `json:"name"`
	Arguments modelcall.Text `json:"arguments"`
	Phase     modelcall.Text `json:"phase"`
	Encrypted modelcall.Text `json:"encrypted_content"`
	Content   []answerPart   `json:"content"`
	Summary   []answerPart   `json:"summary"`
}

type answerPart struct {
	Type    string         `json:"type"`
	Text    modelcall.Text `json:"text"`
	Refusal modelcall.Text `json:"refusal"`
}

type answer struct {
	Object     string         `json:"object"`
	Status     string         `json:"status"`
	Model      modelcall.Text `json:"model"`
	Output     []answerItem   `json:"output"`
	Error      jsontext.Value `json:"error"`
	Incomplete struct {
		Reason modelcall.Text `json:"reason"`
	} `json:"incomplete_details"`
	Usage *struct {
		Input  float64 `json:"input_tokens"`
		Output float64 `json:"output_tokens"`
		More   struct {
			Cached  float64 `json:"cached_tokens"`
			Written float64 `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		OutputMore struct {
			Reasoning float64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

type event struct {
	Type     string         `json:"type"`
	Index    int            `json:"output_index"`
	Summary  int            `json:"summary_index"`
	Item     answerItem     `json:"item"`
	Delta    modelcall.Text `json:"delta"`
	Response jsontext.Value `json:"response"`
}

// Whole implements modelcall.Decoder.
func (d *decoder) Whole(body []byte) error {
	var a answer
	if err := modelcall.Decode(body, &a); err != nil {
		return err
	}
	switch {
	case a.Error.Kind() == '{':
		return modelcall.ParseError(body)
	case a.Object != "response" && a.Status == "":
		return modelcall.ErrGarbage
	}
	return d.end(&a)
}

// Complete implements modelcall.Decoder.
func (d *decoder) Complete() bool { return d.Finish != "" }

// Event implements modelcall.Decoder.
func (d *decoder) Event(data []byte) (last bool, err error) {
	if string(data) == "[DONE]" { // of endpoints that are compatible
		return d.Complete(), nil
	}
	var e event
	if err := modelcall.Decode(data, &e); err != nil {
		return false, err
	}
	switch e.Type {
	case "response.output_item.added":
		return false, d.begin(e.Index, &e.Item)
	case "response.output_text.delta", "response.refusal.delta":
		d.refused = d.refused || e.Type == "response.refusal.delta"
		return false, d.text(e.Index, string(e.Delta))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return false, d.thought(&e)
	case "response.function_call_arguments.delta":
		return false, d.arguments(e.Index, string(e.Delta))
	case "response.output_item.done":
		return false, d.done(e.Index, &e.Item)
	case "response.created", "response.completed", "response.incomplete", "response.failed":
		var a answer
		if err := modelcall.Decode(e.Response, &a); err != nil {
			return false, err
		}
		d.SetModel([]byte(a.Model))
		switch {
		case e.Type == "response.created":
			return false, nil
		case e.Type == "response.failed":
			return true, modelcall.ParseError(e.Response)
		}
		return true, d.end(&a)
	case "error":
		return true, modelcall.ParseError(data)
	case "":
		var other answer
		if modelcall.Decode(data, &other) == nil && other.Error.Kind() == '{' { // of a gateway
			return true, modelcall.ParseError(data)
		}
	}
	return false, nil // parts, and events of later versions
}

// maxItems bounds the items of an answer.
const maxItems = 10_000

// item returns an item of the answer, which is added if needed. Errors: ErrGarbage.
func (d *decoder) item(i int) (*openItem, error) {
	if i < 0 || i >= maxItems {
		return nil, modelcall.ErrGarbage
	}
	for len(d.open) <= i {
		d.open = append(d.open, openItem{})
	}
	return &d.open[i], nil
}

// begin adds an item.
func (d *decoder) begin(i int, it *answerItem) error {
	open, err := d.item(i)
	if err != nil {
		return err
	}
	open.kind = it.Type
	if it.Type != "function_call" || open.call {
		return nil
	}
	open.call, open.Place.Call = true, true
	id := it.CallID
	if id == "" {
		id = it.ID
	}
	err = d.AddCall(modelcall.CallPiece{Index: &i, ID: string(id), Name: string(it.Name)})
	d.EmitCalls()
	return err
}

func (d *decoder) text(i int, piece string) error {
	open, err := d.item(i)
	if err != nil {
		return err
	}
	open.Place.Text += len(piece)
	return d.AddText([]byte(piece))
}

// thought adds a piece of readable reasoning. The parts of a summary are paragraphs.
func (d *decoder) thought(e *event) error {
	open, err := d.item(e.Index)
	if err != nil {
		return err
	}
	piece := string(e.Delta)
	if open.thought && e.Summary > open.summaries {
		piece = "\n\n" + piece
	}
	open.thought, open.summaries = true, max(e.Summary, open.summaries)
	return d.AddThinking([]byte(piece))
}

func (d *decoder) arguments(i int, piece string) error {
	open, err := d.item(i)
	if err != nil || !open.call || piece == "" {
		return err
	}
	open.arguments += len(piece)
	err = d.AddCall(modelcall.CallPiece{Index: &i, Arguments: piece})
	d.EmitCalls()
	return err
}

// done closes an item, and adds what did not come in pieces.
func (d *decoder) done(i int, it *answerItem) error {
	if err := d.begin(i, it); err != nil {
		return err
	}
	open := &d.open[i]
	open.closed = true
	switch it.Type {
	case "message":
		open.Place.Phase = string(it.Phase)
		if open.Text > 0 {
			return nil
		}
		for _, p := range it.Content {
			text := p.Text
			if p.Type == "refusal" {
				d.refused, text = true, p.Refusal
			}
			if err := d.text(i, string(text)); err != nil {
				return err
			}
		}
	case "function_call":
		if open.arguments == 0 {
			return d.arguments(i, string(it.Arguments))
		}
	case "reasoning":
		return d.reasoning(open, it)
	}
	return nil // of server tools, which are not requested
}

// reasoning closes an item of reasoning. It goes back if it is encrypted; what is not is
// kept by the endpoint, which agentd does not want.
func (d *decoder) reasoning(open *openItem, it *answerItem) error {
	readable := it.Summary
	if len(readable) == 0 {
		readable = it.Content
	}
	for n := 0; n < len(readable) && !open.thought; n++ {
		piece := string(readable[n].Text)
		if n > 0 {
			piece = "\n\n" + piece
		}
		if err := d.AddThinking([]byte(piece)); err != nil {
			return err
		}
	}
	open.thought = true
	if it.Encrypted == "" {
		return nil
	}
	type summary struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	kept := struct {
		Type      string    `json:"type"`
		ID        string    `json:"id,omitzero"`
		Summary   []summary `json:"summary"`
		Encrypted string    `json:"encrypted_content"`
	}{Type: "reasoning", ID: string(it.ID), Summary: []summary{}, Encrypted: string(it.Encrypted)}
	for _, p := range it.Summary {
		kept.Summary = append(kept.Summary, summary{"summary_text", string(p.Text)})
	}
	open.Place.Thinking = modelcall.MustMarshal(kept)
	if d.opaque += len(open.Place.Thinking); d.opaque > model.MaxOpaque {
		return modelcall.ErrTooLong
	}
	return nil
}

// end takes what the whole answer says: its end, its usage, and the items that did not
// come as events.
func (d *decoder) end(a *answer) error {
	d.SetModel([]byte(a.Model))
	for i := range a.Output {
		if i < len(d.open) && d.open[i].closed {
			continue
		}
		if err := d.done(i, &a.Output[i]); err != nil {
			return err
		}
	}
	if u := a.Usage; u != nil {
		if u.Input < 0 || u.Output < 0 {
			d.Usage = modelcall.Absurd
		} else {
			d.SetUsage(modelcall.Counts{
				Prompt: modelcall.Count(u.Input), Completion: modelcall.Count(u.Output), Cached: modelcall.Count(u.More.Cached),
				Written: modelcall.Count(u.More.Written), Reasoning: modelcall.Count(u.OutputMore.Reasoning),
			}.Usage())
		}
	}
	d.reason = string(a.Incomplete.Reason)
	d.Finish = a.Status
	if d.Finish == "" {
		d.Finish = "completed"
	}
	if len(a.Output) == 0 && d.Empty() && d.reason == "" {
		return modelcall.ErrEmpty
	}
	return nil
}

// Result implements modelcall.AnswerDecoder.
func (d *decoder) Result(req *model.Request) model.Response {
	finish := model.FinishStop
	switch {
	case d.reason == "max_output_tokens":
		finish = model.FinishLength
	case d.reason == "content_filter":
		finish = model.FinishFilter
	case d.refused:
		finish = model.FinishRefusal
	}
	r := d.Response(req, finish)
	var l modelcall.Layout
	for i := range d.open {
		if p := d.open[i].Place; p.Thinking != nil || p.Text > 0 || p.Call {
			l = append(l, p)
		}
	}
	r.Opaque = l.Encode()
	return r
}
