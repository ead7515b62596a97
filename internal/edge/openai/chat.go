// Package openai answers OpenAI's API shapes with runs of agents
// (interface.md section 4, Chat-compatible routes; decisions.md D10). The
// codec is pure; the handlers only move bytes.
package openai

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
)

// ChatRequest is what is read of POST /v1/chat/completions. Other members are
// accepted and ignored, as newer clients send them.
type ChatRequest struct {
	Model    string    `json:"model" required:"true" doc:"An agent's id, or agent/ and the id."`
	Messages []Message `json:"messages" required:"true" minItems:"1" maxItems:"10000"`
	Stream   *bool     `json:"stream,omitzero" nullable:"true"`

	StreamOptions schema.Nullable `json:"stream_options,omitzero" doc:"include_usage true asks for a last chunk with the usage."`

	Temperature         *float64        `json:"temperature,omitzero" nullable:"true" minimum:"0" maximum:"2"`
	TopP                *float64        `json:"top_p,omitzero" nullable:"true" minimum:"0" maximum:"1"`
	MaxTokens           *int            `json:"max_tokens,omitzero" nullable:"true" doc:"Of each model call. Less than 1 counts as 1."`
	MaxCompletionTokens *int            `json:"max_completion_tokens,omitzero" nullable:"true" doc:"The newer name of max_tokens, which it overrides."`
	Stop                jsontext.Value  `json:"stop,omitzero" doc:"A string or an array of strings."`
	Tools               []Tool          `json:"tools,omitzero" nullable:"true" maxItems:"1000" doc:"Tools that the caller runs itself."`
	ToolChoice          jsontext.Value  `json:"tool_choice,omitzero" doc:"A string or an object, as OpenAI has them. It is about the caller's tools."`
	Functions           jsontext.Value  `json:"functions,omitzero" doc:"The form before tools. Not taken."`
	Metadata            schema.Nullable `json:"metadata,omitzero" doc:"Goes into the run's metadata, as client_metadata."`
	User                *string         `json:"user,omitzero" nullable:"true" maxLength:"512" doc:"Goes into the run's metadata, as client_user."`

	// What follows goes to each of the run's model calls as it is.
	ParallelToolCalls *bool           `json:"parallel_tool_calls,omitzero" nullable:"true"`
	ResponseFormat    schema.Nullable `json:"response_format,omitzero" doc:"text, json_object, or json_schema with a schema."`
	Seed              *int64          `json:"seed,omitzero" nullable:"true"`
	PresencePenalty   *float64        `json:"presence_penalty,omitzero" nullable:"true" minimum:"-2" maximum:"2"`
	FrequencyPenalty  *float64        `json:"frequency_penalty,omitzero" nullable:"true" minimum:"-2" maximum:"2"`
	LogitBias         schema.Nullable `json:"logit_bias,omitzero"`
	ReasoningEffort   *string         `json:"reasoning_effort,omitzero" nullable:"true" maxLength:"32" doc:"Instead of what the agent says of it."`
	Verbosity         *string         `json:"verbosity,omitzero" nullable:"true" maxLength:"32"`
}

// Message is one turn of the caller's conversation.
type Message struct {
	Role       string         `json:"role" required:"true" enum:"system,developer,user,assistant,tool"`
	Content    jsontext.Value `json:"content,omitzero" doc:"A string, an array of content parts, or null."`
	Name       *string        `json:"name,omitzero" nullable:"true"`
	ToolCalls  []ToolCall     `json:"tool_calls,omitzero" nullable:"true" maxItems:"1000"`
	Refusal    *string        `json:"refusal,omitzero" nullable:"true" doc:"Of the assistant: said in place of content."`
	ToolCallID *string        `json:"tool_call_id,omitzero" nullable:"true" doc:"Of a message of role tool: the call that it answers."`
}

// Tool is a tool that the caller runs itself.
type Tool struct {
	Type     string    `json:"type" doc:"function, the only kind that can be taken."`
	Function *Function `json:"function,omitzero"`
}

// Function describes one.
type Function struct {
	Name        string         `json:"name" required:"true" minLength:"1"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters,omitzero" doc:"A JSON Schema."`
	Strict      *bool          `json:"strict,omitzero" nullable:"true" doc:"Arguments must fit the schema, where the model can be held to that."`
}

// ToolCall is a call of one.
type ToolCall struct {
	ID       string       `json:"id" required:"true"`
	Type     string       `json:"type"`
	Function CallFunction `json:"function" required:"true"`
}

// CallFunction is what is called, with arguments as the model wrote them.
type CallFunction struct {
	Name      string `json:"name" required:"true"`
	Arguments string `json:"arguments" required:"true"`
}

// agentPrefix may stand before an agent's id where a model is named.
const agentPrefix = "agent/"

// AgentID gives the agent that the request is for.
func (r *ChatRequest) AgentID() string { return strings.TrimPrefix(r.Model, agentPrefix) }

// Streams says whether the answer is an event stream.
func (r *ChatRequest) Streams() bool { return r.Stream != nil && *r.Stream }

// IncludeUsage says whether a stream ends with a chunk of usage.
func (r *ChatRequest) IncludeUsage() bool { return includeUsage(jsontext.Value(r.StreamOptions)) }

func includeUsage(streamOptions jsontext.Value) bool {
	var options struct {
		IncludeUsage bool `json:"include_usage"`
	}
	// What is no option that we know is some newer client's.
	return len(streamOptions) > 0 && json.Unmarshal(streamOptions, &options) == nil && options.IncludeUsage
}
