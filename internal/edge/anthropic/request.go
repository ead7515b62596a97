// Package anthropic answers the messages shape (interface.md section 4, rules 5
// and 6; section 7, Compatible routes) by calls of the model proxy. It makes no
// runs. The codec is pure; the handlers only move bytes.
package anthropic

import (
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
)

// Prompt is what is read of POST /v1/messages/count_tokens, and the part of POST
// /v1/messages that a model is given. Other members are accepted and ignored, as
// newer clients send them.
type Prompt struct {
	Model      string         `json:"model" required:"true" minLength:"1" maxLength:"1000" doc:"<provider>/<model>. A name that begins with claude- is served by the model that the operator chose for this route."`
	Messages   []Message      `json:"messages" required:"true" minItems:"1" maxItems:"100000"`
	System     jsontext.Value `json:"system,omitzero" doc:"A string or an array of text blocks."`
	Tools      []Tool         `json:"tools,omitzero" nullable:"true" maxItems:"1000" doc:"Tools that the caller runs itself. Tools of a type of their own, which a vendor runs, are ignored."`
	ToolChoice *ToolChoice    `json:"tool_choice"`
	Thinking   *Thinking      `json:"thinking"`
}

// Request is what is read of POST /v1/messages.
type Request struct {
	_ struct{} `json:"-" name:"MessagesRequest"`
	Prompt
	BetaFields

	MaxTokens     int             `json:"max_tokens" required:"true" minimum:"1" doc:"The most that the model may write."`
	Stream        *bool           `json:"stream,omitzero" nullable:"true"`
	Temperature   *float64        `json:"temperature,omitzero" nullable:"true" minimum:"0" maximum:"2"`
	TopP          *float64        `json:"top_p,omitzero" nullable:"true" minimum:"0" maximum:"1"`
	StopSequences []string        `json:"stop_sequences,omitzero" nullable:"true" maxItems:"1000"`
	Metadata      schema.Nullable `json:"metadata,omitzero" doc:"Accepted; it does not leave the platform."`
}

// CountRequest is what is read of POST /v1/messages/count_tokens.
type CountRequest struct {
	_ struct{} `json:"-" name:"MessagesCountRequest"`
	Prompt
}

// Message is one turn.
type Message struct {
	_ struct{} `json:"-" name:"MessagesTurn"`

	Role    string         `json:"role" required:"true" enum:"user,assistant,system"`
	Content jsontext.Value `json:"content" required:"true" doc:"A string or an array of content blocks."`
}

// Tool is a tool that the caller runs itself.
type Tool struct {
	_ struct{} `json:"-" name:"MessagesTool"`

	Type        *string        `json:"type,omitzero" nullable:"true" doc:"custom, or absent. Tools of other types are ignored."`
	Name        string         `json:"name,omitzero"`
	Description *string        `json:"description,omitzero" nullable:"true"`
	InputSchema jsontext.Value `json:"input_schema,omitzero" doc:"A JSON Schema of an object."`
}

// ToolChoice says whether tools are to be called.
type ToolChoice struct {
	_ struct{} `json:"-" name:"MessagesToolChoice"`

	Type            string  `json:"type" required:"true" enum:"auto,any,tool,none"`
	Name            *string `json:"name,omitzero" nullable:"true" doc:"Of the tool, with the type tool."`
	DisableParallel *bool   `json:"disable_parallel_tool_use,omitzero" nullable:"true"`
}

// Thinking says whether the model is to think aloud.
type Thinking struct {
	_ struct{} `json:"-" name:"MessagesThinking"`

	Type   string `json:"type" required:"true" doc:"enabled or adaptive: the answer shows what the model thought, where it tells."`
	Budget *int64 `json:"budget_tokens,omitzero" nullable:"true" doc:"Passed on where the operator said how the model takes it."`
}

// Streams says whether the answer is an event stream.
func (r *Request) Streams() bool { return r.Stream != nil && *r.Stream }

// ShowsThinking says whether the caller wants to see what the model thought.
func (r *Request) ShowsThinking() bool {
	return r.Thinking != nil && (r.Thinking.Type == "enabled" || r.Thinking.Type == "adaptive")
}

// custom says whether the caller runs the tool, and not a vendor's server.
func (t *Tool) custom() bool { return t.Type == nil || *t.Type == "" || *t.Type == "custom" }
