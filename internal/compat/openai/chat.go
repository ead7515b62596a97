// Package openai answers OpenAI's API shapes with runs of agents
// (interface.md section 4, Chat-compatible routes; decisions.md D10). The
// codec is pure; the handlers only move bytes.
package openai

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/fault"
	"agentd/internal/model"
	"agentd/internal/run"
	"agentd/internal/schema"
)

// ChatRequest is what is read of POST /v1/chat/completions. Other members are
// accepted and ignored, as newer clients send them.
type ChatRequest struct {
	Model    string    `json:"model" required:"true" doc:"An agent's id, or agent/ and the id."`
	Messages []Message `json:"messages" required:"true" minItems:"1"`
	Stream   *bool     `json:"stream,omitzero" nullable:"true"`

	StreamOptions schema.Nullable `json:"stream_options,omitzero" doc:"include_usage true asks for a last chunk with the usage."`

	Temperature         *float64        `json:"temperature,omitzero" nullable:"true" minimum:"0" maximum:"2"`
	TopP                *float64        `json:"top_p,omitzero" nullable:"true" minimum:"0" maximum:"1"`
	MaxTokens           *int            `json:"max_tokens,omitzero" nullable:"true"`
	MaxCompletionTokens *int            `json:"max_completion_tokens,omitzero" nullable:"true"`
	Stop                jsontext.Value  `json:"stop,omitzero" doc:"A string or an array of strings."`
	Tools               []Tool          `json:"tools,omitzero" nullable:"true"`
	ToolChoice          jsontext.Value  `json:"tool_choice,omitzero"`
	Metadata            schema.Nullable `json:"metadata,omitzero" doc:"Goes into the run's metadata."`
}

// Message is one turn of the caller's conversation.
type Message struct {
	Role       string         `json:"role" required:"true" enum:"system,developer,user,assistant,tool,function"`
	Content    jsontext.Value `json:"content,omitzero" doc:"A string, an array of content parts, or null."`
	Name       *string        `json:"name,omitzero" nullable:"true"`
	ToolCalls  []ToolCall     `json:"tool_calls,omitzero" nullable:"true"`
	ToolCallID *string        `json:"tool_call_id,omitzero" nullable:"true"`
}

// Tool is a tool that the caller runs itself.
type Tool struct {
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function describes one.
type Function struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters,omitzero"`
}

// ToolCall is a call of one.
type ToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function CallFunction `json:"function"`
}

// CallFunction is what is called, with arguments as the model wrote them.
type CallFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// AgentID gives the agent that the request is for.
func (r *ChatRequest) AgentID() string { return strings.TrimPrefix(r.Model, "agent/") }

// Streams says whether the answer is an event stream.
func (r *ChatRequest) Streams() bool { return r.Stream != nil && *r.Stream }

// IncludeUsage says whether a stream ends with a chunk of usage.
func (r *ChatRequest) IncludeUsage() bool {
	var options struct {
		IncludeUsage bool `json:"include_usage"`
	}
	// What is no option that we know is some newer client's.
	return len(r.StreamOptions) > 0 && json.Unmarshal(r.StreamOptions, &options) == nil && options.IncludeUsage
}

// RunRequest turns the request into a run. Messages of system and developer
// become the caller's instructions; the last message is the run's, the others
// its history. Errors: fault.Invalid for the field that cannot be read.
func (r *ChatRequest) RunRequest() (run.Request, error) {
	var in run.Input
	var instructions []string
	var turns []model.Message
	for i, m := range r.Messages {
		text, parts, err := content(m.Content)
		if err != nil {
			return run.Request{}, fault.BadFields(fault.Field{Field: "messages[" + itoa(i) + "].content", Message: err.Error()})
		}
		switch m.Role {
		case "system", "developer":
			instructions = append(instructions, text)
			continue
		case "function":
			m.Role = "tool"
		}
		t := model.Message{Role: model.Role(m.Role), Text: text, Parts: parts, Name: deref(m.Name), ToolCallID: deref(m.ToolCallID)}
		for _, c := range m.ToolCalls {
			t.ToolCalls = append(t.ToolCalls, model.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		turns = append(turns, t)
	}
	if n := len(turns); n > 0 && turns[n-1].Role == model.User {
		in.Message, in.Parts = turns[n-1].Text, turns[n-1].Parts
		turns = turns[:n-1]
	}
	if len(turns) == 0 && in.Message == "" && len(in.Parts) == 0 && len(instructions) == 0 {
		return run.Request{}, fault.BadFields(fault.Field{Field: "messages", Message: "there is nothing to answer: no message has content"})
	}
	in.History, in.Instructions = turns, strings.Join(instructions, "\n\n")
	options, err := r.options()
	if err != nil {
		return run.Request{}, err
	}
	input, err := json.Marshal(in)
	if err != nil {
		return run.Request{}, err
	}
	metadata, err := json.Marshal(struct {
		Source   string          `json:"source"`
		Metadata schema.Nullable `json:"client_metadata,omitzero"`
	}{"chat_completions", r.Metadata})
	if err != nil {
		return run.Request{}, err
	}
	return run.Request{AgentID: r.AgentID(), Input: input, Parsed: &in, Metadata: metadata, Options: options}, nil
}

func (r *ChatRequest) options() (run.Options, error) {
	o := run.Options{Plain: !r.Streams(), Temperature: r.Temperature, TopP: r.TopP}
	if len(r.ToolChoice) > 0 && r.ToolChoice.Kind() != 'n' {
		o.ToolChoice = r.ToolChoice
	}
	for _, limit := range []*int{r.MaxTokens, r.MaxCompletionTokens} {
		if limit != nil {
			o.MaxTokens = max(1, *limit)
		}
	}
	switch r.Stop.Kind() {
	case '"':
		var s string
		if err := json.Unmarshal(r.Stop, &s); err != nil {
			return o, err
		}
		o.Stop = []string{s}
	case '[':
		if err := json.Unmarshal(r.Stop, &o.Stop); err != nil {
			return o, fault.BadFields(fault.Field{Field: "stop", Message: "must be a string or an array of strings"})
		}
	case 'n', 0:
	default:
		return o, fault.BadFields(fault.Field{Field: "stop", Message: "must be a string or an array of strings"})
	}
	for i, t := range r.Tools {
		if t.Function.Name == "" {
			return o, fault.BadFields(fault.Field{Field: "tools[" + itoa(i) + "].function.name", Message: "is required"})
		}
		o.Tools = append(o.Tools, run.CallerTool{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
	}
	return o, nil
}
