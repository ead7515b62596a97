package geminiclient

import (
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// decoder reads an answer, streamed or whole.
type decoder struct {
	modelcall.Answer
	segments []segment
	opaque   int // bytes of signatures
	calls    int
	blocked  bool // the prompt, by a safety filter
}

type answer struct {
	Candidates []candidate    `json:"candidates"`
	Model      modelcall.Text `json:"modelVersion"`
	Usage      *struct {
		Prompt     float64 `json:"promptTokenCount"`
		ToolPrompt float64 `json:"toolUsePromptTokenCount"`
		Cached     float64 `json:"cachedContentTokenCount"`
		Output     float64 `json:"candidatesTokenCount"`
		Thoughts   float64 `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
	Feedback struct {
		Reason modelcall.Text `json:"blockReason"`
	} `json:"promptFeedback"`
	Error jsontext.Value `json:"error"`
}

type candidate struct {
	Index   int `json:"index"`
	Content struct {
		Parts []answerPart `json:"parts"`
	} `json:"content"`
	Finish modelcall.Text `json:"finishReason"`
}

type answerPart struct {
	Text      modelcall.Text `json:"text"`
	Thought   bool           `json:"thought"`
	Signature modelcall.Text `json:"thoughtSignature"`
	Call      *struct {
		ID   modelcall.Text `json:"id"`
		Name modelcall.Text `json:"name"`
		Args jsontext.Value `json:"args"`
	} `json:"functionCall"`
}

// Whole implements modelcall.Decoder. A list is a stream in one piece.
func (d *decoder) Whole(body []byte) error {
	var all []jsontext.Value
	if jsontext.Value(body).Kind() != '[' {
		all = []jsontext.Value{body}
	} else if err := modelcall.Decode(body, &all); err != nil {
		return err
	}
	for _, one := range all {
		if _, err := d.Event(one); err != nil {
			return err
		}
	}
	if !d.Complete() {
		return modelcall.ErrEmpty
	}
	return nil
}

// Complete implements modelcall.Decoder.
func (d *decoder) Complete() bool { return d.Finish != "" || d.blocked }

// Event implements modelcall.Decoder.
func (d *decoder) Event(data []byte) (last bool, err error) {
	var a answer
	if err := modelcall.Decode(data, &a); err != nil {
		return false, err
	}
	if a.Error.Kind() == '{' {
		return true, modelcall.ParseError(data)
	}
	d.SetModel([]byte(a.Model))
	d.blocked = d.blocked || a.Feedback.Reason != "" && len(a.Candidates) == 0
	if u := a.Usage; u != nil {
		if u.Prompt < 0 || u.Output < 0 {
			d.Usage = modelcall.Absurd
		} else {
			d.SetUsage(modelcall.Counts{
				Prompt: modelcall.Count(u.Prompt + u.ToolPrompt), Completion: modelcall.Count(u.Output + u.Thoughts),
				Cached: modelcall.Count(u.Cached), Reasoning: modelcall.Count(u.Thoughts),
			}.Usage())
		}
	}
	for i := range a.Candidates {
		c := &a.Candidates[i]
		if c.Index != 0 { // was not requested
			continue
		}
		for j := range c.Content.Parts {
			if err := d.part(&c.Content.Parts[j]); err != nil {
				return false, err
			}
		}
		if c.Finish != "" {
			d.Finish = string(c.Finish)
		}
	}
	if d.Finish == "MALFORMED_FUNCTION_CALL" && d.Empty() {
		return true, modelcall.ErrEmpty
	}
	return false, nil
}

// part adds a part of the answer.
func (d *decoder) part(p *answerPart) error {
	if d.opaque += len(p.Signature); d.opaque > model.MaxOpaque {
		return modelcall.ErrTooLong
	}
	switch {
	case p.Call != nil:
		i := d.calls
		d.calls++
		piece := modelcall.CallPiece{Index: &i, ID: string(p.Call.ID), Name: string(p.Call.Name), Opaque: string(p.Signature)}
		if p.Call.Args.Kind() == '{' {
			piece.Arguments = string(p.Call.Args)
		}
		err := d.AddCall(piece)
		d.EmitCalls()
		return err
	case p.Thought:
		return d.AddThinking([]byte(p.Text))
	}
	if n := len(d.segments); p.Signature == "" && n > 0 && d.segments[n-1].Signature == "" {
		d.segments[n-1].Bytes += len(p.Text)
	} else if p.Text != "" || p.Signature != "" {
		d.segments = append(d.segments, segment{len(p.Text), string(p.Signature)})
	}
	return d.AddText([]byte(p.Text))
}

// Result implements modelcall.AnswerDecoder.
func (d *decoder) Result(req *model.Request) model.Response {
	finish := finishReason(d.Finish)
	if d.blocked && d.Finish == "" {
		finish = model.FinishFilter
	}
	r := d.Response(req, finish)
	r.Opaque = encodeSegments(d.segments)
	return r
}

// finishReason maps a finish reason to one of the model package's.
func finishReason(reason string) string {
	switch reason {
	case "MAX_TOKENS":
		return model.FinishLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE":
		return model.FinishFilter
	}
	return model.FinishStop
}
