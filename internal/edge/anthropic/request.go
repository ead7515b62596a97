// Package anthropic serves Anthropic's Messages API by calls of the model proxy, or by
// runs where a request names an agent. The codec is pure; the handlers only move bytes.
package anthropic

import (
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
)

// Prompt is the body of POST /v1/messages/count_tokens, and the part of POST
// /v1/messages that the model receives. Unknown members are accepted and ignored,
// because newer clients send them.
type Prompt struct {
	Model      string         `json:"model" required:"true" minLength:"1" maxLength:"1000" doc:"<provider>/<model>, or an agent: its id, or agent/ and its id or name. Names that begin with claude- are served by the operator's model for this route."`
	Messages   []Message      `json:"messages" required:"true" minItems:"1" maxItems:"100000" doc:"The conversation, oldest message first."`
	System     jsontext.Value `json:"system,omitzero" doc:"A string or an array of text blocks."`
	Tools      []Tool         `json:"tools,omitzero" nullable:"true" maxItems:"1000" doc:"Tools that the client executes. Server tools (of another type than custom) are ignored."`
	ToolChoice *ToolChoice    `json:"tool_choice" doc:"Which tools the model may or must call. Default: auto."`
	Thinking   *Thinking      `json:"thinking" doc:"Whether and how long the model thinks. Default: the model's."`
}

// Request is the body of POST /v1/messages.
type Request struct {
	_ struct{} `json:"-" name:"MessagesRequest"`
	Prompt
	BetaFields
	CacheFields

	MaxTokens     int             `json:"max_tokens" required:"true" minimum:"1" doc:"Maximum number of output tokens."`
	Stream        *bool           `json:"stream,omitzero" nullable:"true" doc:"true: the answer is a stream of server-sent events. Default: false."`
	Temperature   *float64        `json:"temperature,omitzero" nullable:"true" minimum:"0" maximum:"2" doc:"How freely the model chooses its words: 0 the least, 2 the most. Default: the model's."`
	TopP          *float64        `json:"top_p,omitzero" nullable:"true" minimum:"0" maximum:"1" doc:"Only the likeliest tokens whose probabilities add up to this are chosen from. Default: the model's."`
	StopSequences []string        `json:"stop_sequences,omitzero" nullable:"true" maxItems:"1000" doc:"Texts that end the answer."`
	Metadata      schema.Nullable `json:"metadata,omitzero" doc:"Accepted, but not sent to the model."`
}

// CountRequest is the body of POST /v1/messages/count_tokens.
type CountRequest struct {
	_ struct{} `json:"-" name:"MessagesCountRequest"`
	Prompt
}

// Message is one turn of the conversation.
type Message struct {
	_ struct{} `json:"-" name:"MessagesTurn"`

	Role    string         `json:"role" required:"true" enum:"user,assistant,system" doc:"Who speaks."`
	Content jsontext.Value `json:"content" required:"true" doc:"A string or an array of content blocks."`
}

// Tool is a tool that the client executes.
type Tool struct {
	_ struct{} `json:"-" name:"MessagesTool"`

	Type        *string        `json:"type,omitzero" nullable:"true" doc:"custom or absent. Tools of other types are ignored."`
	Name        string         `json:"name,omitzero" doc:"Name of the tool, as the model calls it."`
	Description *string        `json:"description,omitzero" nullable:"true" doc:"What the tool does, for the model."`
	InputSchema jsontext.Value `json:"input_schema,omitzero" doc:"A JSON Schema of an object."`
	CacheFields
}

// ToolChoice sets whether the model calls tools.
type ToolChoice struct {
	_ struct{} `json:"-" name:"MessagesToolChoice"`

	Type            string  `json:"type" required:"true" enum:"auto,any,tool,none" doc:"auto: the model decides; any: it calls a tool; tool: it calls the one of name; none: it calls no tool."`
	Name            *string `json:"name,omitzero" nullable:"true" doc:"With type tool: the tool to call."`
	DisableParallel *bool   `json:"disable_parallel_tool_use,omitzero" nullable:"true" doc:"true: at most one tool call in an answer. Default: false."`
}

// Thinking sets whether the answer shows the model's reasoning.
type Thinking struct {
	_ struct{} `json:"-" name:"MessagesThinking"`

	Type   string `json:"type" required:"true" doc:"enabled or adaptive: the answer includes the model's reasoning, if the endpoint sends it."`
	Budget *int64 `json:"budget_tokens,omitzero" nullable:"true" doc:"Passed on if the operator configured how the model accepts it."`
}

// Streams reports whether the answer is an event stream.
func (r *Request) Streams() bool { return r.Stream != nil && *r.Stream }

// ShowsThinking reports whether the client requested the model's reasoning.
func (r *Request) ShowsThinking() bool {
	return r.Thinking != nil && (r.Thinking.Type == "enabled" || r.Thinking.Type == "adaptive")
}

// custom reports whether the client executes the tool, not the vendor's server.
func (t *Tool) custom() bool { return t.Type == nil || *t.Type == "" || *t.Type == "custom" }
