package openaiclient

import (
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/wire/modelcall"
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

// text is a string, leniently decoded.
type text = modelcall.Text

// piece returns the piece of a call.
func (c *toolCall) piece() modelcall.CallPiece {
	p := modelcall.CallPiece{Index: c.Index, ID: string(c.ID), Name: string(c.Function.Name), Arguments: string(c.Function.Arguments)}
	if c.Extra.Kind() == '{' {
		p.Opaque = string(c.Extra)
	}
	return p
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
