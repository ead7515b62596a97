package openaiclient

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// completion is the part of an answer, or of a chunk, that is read. Fields on which
// endpoints disagree are decoded leniently: a value of an unexpected type counts as
// absent.
type completion struct {
	Object  string         `json:"object"`
	Model   text           `json:"model"`
	Choices []choice       `json:"choices"`
	Usage   jsontext.Value `json:"usage"`
	Error   jsontext.Value `json:"error"`
}

type choice struct {
	Index        int     `json:"index"`
	Delta        message `json:"delta"`
	Message      message `json:"message"`
	FinishReason text    `json:"finish_reason"`
	StopReason   text    `json:"stop_reason"` // vLLM: the stop sequence
}

type message struct {
	Content          text       `json:"content"`
	Refusal          text       `json:"refusal"`
	ReasoningContent text       `json:"reasoning_content"`
	Reasoning        text       `json:"reasoning"`
	ToolCalls        []toolCall `json:"tool_calls"`

	ReasoningDetails jsontext.Value `json:"reasoning_details"`
	ExtraContent     jsontext.Value `json:"extra_content"`
}

// thinking returns the reasoning text, which has two names.
func (m *message) thinking() text {
	if m.ReasoningContent != "" {
		return m.ReasoningContent
	}
	return m.Reasoning
}

type toolCall struct {
	Index    *int           `json:"index"`
	ID       text           `json:"id"`
	Extra    jsontext.Value `json:"extra_content"`
	Function struct {
		Name      text      `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

// lenient are the options for decoding answers: duplicate names and invalid UTF-8 are
// accepted.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// text is a string. An array of content parts decodes to their texts, anything else to
// "".
type text string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (t *text) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*t = ""
	switch dec.PeekKind() {
	case '"':
		token, err := dec.ReadToken()
		if err == nil {
			*t = text(token.String())
		}
		return err
	case '[':
		var parts []part
		if err := json.UnmarshalDecode(dec, &parts); err != nil {
			return err
		}
		for _, p := range parts {
			*t += p.Text
		}
		return nil
	}
	return dec.SkipValue()
}

// part is a content part. One that is not an object has no text.
type part struct {
	Text text `json:"text"`
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (p *part) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	type plain part
	return json.UnmarshalDecode(dec, (*plain)(p))
}

// arguments are a tool call's: a string of JSON or, with some endpoints, the object
// itself.
type arguments string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (a *arguments) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return (*text)(a).UnmarshalJSONFrom(dec)
	}
	value, err := dec.ReadValue()
	*a = arguments(value)
	return err
}
