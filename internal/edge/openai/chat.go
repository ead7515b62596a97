// Package openai serves OpenAI's APIs with runs of agents: chat completions,
// responses and models, and, without a run, embeddings and the model proxy. The
// codec is pure; the handlers only move bytes.
package openai

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
)

// ChatRequest is the body of POST /v1/chat/completions. Unknown members are
// accepted and ignored, because newer clients send them.
type ChatRequest struct {
	Model    string    `json:"model" required:"true" doc:"An agent's id, or its name where no other agent has it; optionally with the prefix agent/."`
	Messages []Message `json:"messages" required:"true" minItems:"1" maxItems:"10000" doc:"The conversation, oldest message first."`
	Stream   *bool     `json:"stream,omitzero" nullable:"true" doc:"true: the answer is a stream of server-sent events. Default: false."`

	StreamOptions schema.Nullable `json:"stream_options,omitzero" doc:"include_usage true adds a last chunk with the usage."`

	Temperature         *float64        `json:"temperature,omitzero" nullable:"true" minimum:"0" maximum:"2" doc:"How freely the model chooses its words: 0 the least, 2 the most. Default: the agent's."`
	TopP                *float64        `json:"top_p,omitzero" nullable:"true" minimum:"0" maximum:"1" doc:"Only the likeliest tokens whose probabilities add up to this are chosen from. Default: the agent's."`
	MaxTokens           *int            `json:"max_tokens,omitzero" nullable:"true" doc:"Limit of each model call. Less than 1 counts as 1."`
	MaxCompletionTokens *int            `json:"max_completion_tokens,omitzero" nullable:"true" doc:"The newer name of max_tokens; overrides it."`
	Stop                jsontext.Value  `json:"stop,omitzero" doc:"A string or an array of strings."`
	Tools               []Tool          `json:"tools,omitzero" nullable:"true" maxItems:"1000" doc:"Tools that the client executes."`
	ToolChoice          jsontext.Value  `json:"tool_choice,omitzero" doc:"A string or an object, as in OpenAI's API. Applies to the client's tools."`
	Functions           jsontext.Value  `json:"functions,omitzero" doc:"Not supported; use tools."`
	Metadata            schema.Nullable `json:"metadata,omitzero" doc:"Stored in the run's metadata as client_metadata."`
	User                *string         `json:"user,omitzero" nullable:"true" maxLength:"512" doc:"Stored in the run's metadata as client_user."`

	// The following are passed on unchanged to each of the run's model calls.
	ParallelToolCalls *bool           `json:"parallel_tool_calls,omitzero" nullable:"true" doc:"false: at most one tool call in an answer. Default: the model's."`
	ResponseFormat    schema.Nullable `json:"response_format,omitzero" doc:"text, json_object, or json_schema with a schema."`
	Seed              *int64          `json:"seed,omitzero" nullable:"true" doc:"The same seed makes the same answer more likely, if the model supports that."`
	PresencePenalty   *float64        `json:"presence_penalty,omitzero" nullable:"true" minimum:"-2" maximum:"2" doc:"Above 0: tokens that occurred are less likely. Default: the agent's."`
	FrequencyPenalty  *float64        `json:"frequency_penalty,omitzero" nullable:"true" minimum:"-2" maximum:"2" doc:"Above 0: tokens are less likely the more often they occurred. Default: the agent's."`
	LogitBias         schema.Nullable `json:"logit_bias,omitzero" doc:"Changes of the likelihood of tokens, from -100 to 100, by token id."`
	ReasoningEffort   *string         `json:"reasoning_effort,omitzero" nullable:"true" maxLength:"32" doc:"Overrides the agent's setting."`
	Verbosity         *string         `json:"verbosity,omitzero" nullable:"true" maxLength:"32" doc:"How much the model writes: low, medium or high, if it supports that."`
}

// Message is one message of the client's conversation.
type Message struct {
	Role       string         `json:"role" required:"true" enum:"system,developer,user,assistant,tool" doc:"Who speaks."`
	Content    jsontext.Value `json:"content,omitzero" doc:"A string, an array of content parts, or null."`
	Name       *string        `json:"name,omitzero" nullable:"true" doc:"Name of who speaks, where several have one role."`
	ToolCalls  []ToolCall     `json:"tool_calls,omitzero" nullable:"true" maxItems:"1000" doc:"Of role assistant: the calls that it made."`
	Refusal    *string        `json:"refusal,omitzero" nullable:"true" doc:"Of role assistant: the refusal that replaces content."`
	ToolCallID *string        `json:"tool_call_id,omitzero" nullable:"true" doc:"Of role tool: the call that the message answers."`
}

// Tool is a tool that the client executes.
type Tool struct {
	Type     string    `json:"type" doc:"Only function is supported."`
	Function *Function `json:"function,omitzero" doc:"The function."`
}

// Function describes a tool.
type Function struct {
	Name        string         `json:"name" required:"true" minLength:"1" doc:"Name of the function, as the model calls it."`
	Description string         `json:"description,omitzero" doc:"What the function does, for the model."`
	Parameters  jsontext.Value `json:"parameters,omitzero" doc:"A JSON Schema."`
	Strict      *bool          `json:"strict,omitzero" nullable:"true" doc:"Makes arguments follow the schema, if the model supports that."`
}

// ToolCall is a call of a tool.
type ToolCall struct {
	ID       string       `json:"id" required:"true" doc:"ID of the call, which the answer of role tool repeats."`
	Type     string       `json:"type" doc:"Always function."`
	Function CallFunction `json:"function" required:"true" doc:"The function and its arguments."`
}

// CallFunction is the called function, with arguments as the model wrote them.
type CallFunction struct {
	Name      string `json:"name" required:"true" doc:"Name of the function."`
	Arguments string `json:"arguments" required:"true" doc:"Arguments, as JSON in a string."`
}

// Streams reports whether the answer is an event stream.
func (r *ChatRequest) Streams() bool { return r.Stream != nil && *r.Stream }

// IncludeUsage reports whether a stream ends with a chunk of usage.
func (r *ChatRequest) IncludeUsage() bool { return includeUsage(jsontext.Value(r.StreamOptions)) }

func includeUsage(streamOptions jsontext.Value) bool {
	var options struct {
		IncludeUsage bool `json:"include_usage"`
	}
	// Options of another shape come from newer clients and are ignored.
	return len(streamOptions) > 0 && json.Unmarshal(streamOptions, &options) == nil && options.IncludeUsage
}
