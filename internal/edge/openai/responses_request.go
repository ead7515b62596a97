package openai

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/jsonform"
	"agentd/internal/kernel/model"
)

// ResponsesSource is metadata.source of the runs of POST /v1/responses.
const ResponsesSource = "responses"

// ResponseRequest is the body of POST /v1/responses. Unknown members are accepted
// and ignored, because newer clients send them.
type ResponseRequest struct {
	Model    string         `json:"model" required:"true" doc:"An agent's id, or its name where no other agent has it; optionally with the prefix agent/."`
	Input    jsontext.Value `json:"input" required:"true" doc:"A string or an array of items: message, function_call, function_call_output, reasoning, item_reference."`
	Previous *string        `json:"previous_response_id,omitzero" nullable:"true" doc:"The response to continue; it and all before it are the history."`

	Instructions *string `json:"instructions,omitzero" nullable:"true" doc:"For this response only, in addition to the agent's prompt."`
	Stream       *bool   `json:"stream,omitzero" nullable:"true" doc:"true: the answer is a stream of server-sent events. Default: false."`
	Background   *bool   `json:"background,omitzero" nullable:"true" doc:"Without stream: answer at once with status queued; poll the response by its id."`

	Temperature     *float64        `json:"temperature,omitzero" nullable:"true" minimum:"0" maximum:"2" doc:"How freely the model chooses its words: 0 the least, 2 the most. Default: the agent's."`
	TopP            *float64        `json:"top_p,omitzero" nullable:"true" minimum:"0" maximum:"1" doc:"Only the likeliest tokens whose probabilities add up to this are chosen from. Default: the agent's."`
	MaxOutputTokens *int            `json:"max_output_tokens,omitzero" nullable:"true" doc:"Limit of each model call. Less than 1 counts as 1."`
	Tools           []ResponseTool  `json:"tools,omitzero" nullable:"true" maxItems:"1000" doc:"Functions that the client executes, and file_search. Other types are ignored."`
	Include         []string        `json:"include,omitzero" nullable:"true" maxItems:"20" doc:"file_search_call.results: show what searches found. Others are ignored."`
	ToolChoice      jsontext.Value  `json:"tool_choice,omitzero" doc:"A string or an object, as in OpenAI's API."`
	Parallel        *bool           `json:"parallel_tool_calls,omitzero" nullable:"true" doc:"false: at most one tool call in an answer. Default: the model's."`
	Text            schema.Nullable `json:"text,omitzero" doc:"format sets the form of the answer: text, json_object or json_schema."`
	Reasoning       schema.Nullable `json:"reasoning,omitzero" doc:"effort sets how much the model reasons."`
	Metadata        schema.Nullable `json:"metadata,omitzero" doc:"Repeated in the response; stored as the run's metadata.client_metadata."`

	// Ignoring these two would change the meaning of the request: they are refused.
	Conversation jsontext.Value `json:"conversation,omitzero" doc:"Not supported; use previous_response_id."`
	Prompt       jsontext.Value `json:"prompt,omitzero" doc:"Not supported; the agent has its own prompt."`
}

// ResponseTool is a tool in the shape of the Responses API.
type ResponseTool struct {
	Type        string         `json:"type" required:"true" doc:"function for a tool that the client executes, file_search to search vector stores. Tools of other types are ignored."`
	Name        string         `json:"name,omitzero" doc:"Name of a function."`
	Description *string        `json:"description,omitzero" nullable:"true" doc:"What the function does, for the model."`
	Parameters  jsontext.Value `json:"parameters,omitzero" doc:"A JSON Schema."`
	Strict      *bool          `json:"strict,omitzero" nullable:"true" doc:"true: arguments follow the schema, if the model supports that."`

	VectorStoreIDs []string       `json:"vector_store_ids,omitzero" nullable:"true" maxItems:"10" doc:"Of file_search: the vector stores that are searched, beside the agent's own knowledge bases."`
	Filters        jsontext.Value `json:"filters,omitzero" doc:"Not supported: files have no attributes."`
}

const functionTool = "function"

// Streams reports whether the answer is an event stream.
func (r *ResponseRequest) Streams() bool { return r.Stream != nil && *r.Stream }

// InBackground reports whether the answer is polled instead of awaited.
func (r *ResponseRequest) InBackground() bool { return r.Background != nil && *r.Background }

// echoedParams is the part of a request that its responses repeat and its run does
// not store.
type echoedParams struct {
	Model        string          `json:"model"`
	Instructions *string         `json:"instructions,omitzero"`
	Background   bool            `json:"background,omitzero"`
	MaxTokens    *int            `json:"max_output_tokens,omitzero"`
	Temperature  *float64        `json:"temperature,omitzero"`
	TopP         *float64        `json:"top_p,omitzero"`
	ToolChoice   jsontext.Value  `json:"tool_choice,omitzero"`
	Parallel     *bool           `json:"parallel_tool_calls,omitzero"`
	Text         schema.Nullable `json:"text,omitzero"`
	Reasoning    schema.Nullable `json:"reasoning,omitzero"`
	ShowResults  bool            `json:"show_results,omitzero"` // of searches
}

func (r *ResponseRequest) echoed() echoedParams {
	return echoedParams{
		r.Model, r.Instructions, r.InBackground(), r.MaxOutputTokens, r.Temperature, r.TopP,
		r.ToolChoice, r.Parallel, r.Text, r.Reasoning, slices.Contains(r.Include, includeResults),
	}
}

// runStart is a request converted to a run's. standing are the instructions that
// later responses of the chain keep.
type runStart struct {
	run.Request
	standing string
}

// runStart converts the request to a run's. open are the calls of the previous
// response without a result; lookup returns earlier items by id. Errors:
// fault.Invalid with every invalid field.
func (r *ResponseRequest) runStart(open []model.ToolCall, lookup func(id string) (OutputItem, bool)) (runStart, error) {
	p := inputReader{lookup: lookup}
	p.addOpenCalls(open)
	p.read(r.Input)
	c := runStart{standing: strings.Join(p.instructions, "\n\n")}
	c.Options = r.options(&p)
	if r.Conversation.Kind() != 0 && r.Conversation.Kind() != 'n' {
		p.addError("conversation", "conversation is not supported; send previous_response_id, or the earlier items as input")
	}
	if r.Prompt.Kind() != 0 && r.Prompt.Kind() != 'n' {
		p.addError("prompt", "stored prompts are not supported; the agent has its own prompt, and instructions can be added")
	}
	in := p.runInput()
	in.Instructions = strings.Join(slices.DeleteFunc([]string{ptr.Value(r.Instructions), c.standing},
		func(s string) bool { return s == "" }), "\n\n")
	if len(p.errors) == 0 && len(in.History) == 0 && in.Message == "" && len(in.Parts) == 0 && in.Instructions == "" {
		p.addError("input", "no item has content")
	}
	if len(p.errors) > 0 {
		return c, fault.BadFields(p.errors...)
	}
	input, err := json.Marshal(in)
	if err != nil {
		return c, err
	}
	if c.Metadata, err = runMetadata(ResponsesSource, r.Metadata, nil); err != nil {
		return c, err
	}
	c.Input, c.Parsed, c.MediaField = input, &in, "input"
	c.Options.Follows = ptr.Value(r.Previous)
	return c, nil
}

// options returns the settings of the run's model calls.
func (r *ResponseRequest) options(p *inputReader) run.Options {
	o := run.Options{Plain: !r.Streams(), Temperature: r.Temperature, TopP: r.TopP, Extra: map[string]jsontext.Value{}}
	if r.MaxOutputTokens != nil {
		o.MaxTokens = max(1, *r.MaxOutputTokens)
	}
	for i, t := range r.Tools {
		field := "tools[" + strconv.Itoa(i) + "]."
		if t.Type == searchTool {
			r.addSearch(strings.TrimSuffix(field, "."), &t, &o, p)
		}
		if t.Type != functionTool {
			continue
		}
		if t.Name == "" {
			p.addError(field+"name", "required for a function")
		}
		switch t.Parameters.Kind() {
		case 'n':
			t.Parameters = nil
		case 0, '{':
		default:
			p.addError(field+"parameters", "expected a JSON Schema, which is an object")
		}
		o.Tools = append(o.Tools, run.CallerTool{
			Name: t.Name, Description: ptr.Value(t.Description), Parameters: t.Parameters, Strict: t.Strict != nil && *t.Strict,
		})
	}
	o.ToolChoice = r.toolChoice(p)
	if o.Tools = r.allowed(p, o.Tools); len(o.Tools) == 0 && len(r.Tools) > 0 {
		o.ToolChoice = nil // endpoints refuse a choice among no tools
	}
	if format := r.format(p); format != nil {
		o.Extra["response_format"] = format
	}
	if r.Parallel != nil {
		o.Extra["parallel_tool_calls"] = jsontext.Value(strconv.FormatBool(*r.Parallel))
	}
	var reasoning struct {
		Effort *string `json:"effort"`
	}
	if len(r.Reasoning) > 0 && json.Unmarshal(r.Reasoning, &reasoning) != nil {
		p.addError("reasoning.effort", "expected a string")
	}
	if ptr.Value(reasoning.Effort) != "" {
		o.Extra["reasoning_effort"] = quote(*reasoning.Effort)
	}
	if len(o.Extra) == 0 {
		o.Extra = nil
	}
	return o
}

// toolChoice returns the choice in the form of chat completions, which names a
// function one level deeper.
func (r *ResponseRequest) toolChoice(p *inputReader) jsontext.Value {
	switch r.ToolChoice.Kind() {
	case 0, 'n':
		return nil
	case '"':
		switch unquote(r.ToolChoice) {
		case "none", "auto", "required":
			return r.ToolChoice
		}
	case '{':
		var choice struct {
			Type string `json:"type"`
			Name string `json:"name"`
			Mode string `json:"mode"`
		}
		if json.Unmarshal(r.ToolChoice, &choice) == nil {
			switch {
			case choice.Type == functionTool && choice.Name != "":
				return slices.Concat([]byte(`{"type":"function","function":{"name":`), quote(choice.Name), []byte(`}}`))
			case choice.Type == "allowed_tools" && (choice.Mode == "auto" || choice.Mode == "required"):
				return jsontext.Value(quote(choice.Mode))
			}
		}
	}
	p.addError("tool_choice", `expected "none", "auto", "required", {"type":"function","name":…} or {"type":"allowed_tools","mode":…}`)
	return nil
}

// allowed returns the tools that tool_choice allows. Few endpoints support allowed_tools;
// offering only those has the same effect, and a call to another one is not handed on.
func (r *ResponseRequest) allowed(p *inputReader, tools []run.CallerTool) []run.CallerTool {
	var choice struct {
		Type  string `json:"type"`
		Tools []struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"tools"`
	}
	if r.ToolChoice.Kind() != '{' || json.Unmarshal(r.ToolChoice, &choice) != nil || choice.Type != "allowed_tools" || len(choice.Tools) == 0 {
		return tools
	}
	names := map[string]bool{}
	for _, t := range choice.Tools {
		if t.Type != functionTool {
			continue // a tool of the endpoint, which agents do not have
		}
		if !slices.ContainsFunc(tools, func(own run.CallerTool) bool { return own.Name == t.Name }) {
			p.addError("tool_choice.tools", "the function "+t.Name+" is not in tools")
		}
		names[t.Name] = true
	}
	return slices.DeleteFunc(tools, func(t run.CallerTool) bool { return !names[t.Name] })
}

// format returns text.format in the form of chat completions, where it is called
// response_format; nil for text.
func (r *ResponseRequest) format(p *inputReader) jsontext.Value {
	if len(r.Text) == 0 {
		return nil
	}
	type named struct {
		Name        string         `json:"name"`
		Description *string        `json:"description,omitzero"`
		Schema      jsontext.Value `json:"schema,omitzero"`
		Strict      *bool          `json:"strict,omitzero"`
	}
	var text struct {
		Format struct {
			Type  string `json:"type"`
			named `json:",inline"`
		} `json:"format"`
	}
	if json.Unmarshal(r.Text, &text) != nil {
		p.addError("text.format", "expected an object with a type and, for json_schema, a name and a schema")
		return nil
	}
	switch f := text.Format; f.Type {
	case "", "text":
		return nil
	case "json_object":
		return jsontext.Value(`{"type":"json_object"}`)
	case "json_schema":
		if f.Name == "" {
			p.addError("text.format.name", "required for a json_schema")
		}
		if f.Schema.Kind() != '{' {
			p.addError("text.format.schema", "expected a JSON Schema, which is an object")
		}
		b, err := json.Marshal(struct {
			Type   string `json:"type"`
			Schema named  `json:"json_schema"`
		}{f.Type, f.named})
		if err != nil {
			p.addError("text.format", "cannot be read")
		} else if _, err := jsonform.OfResponseFormat(b); err != nil {
			p.addError("text.format.schema", unusableSchema(err))
		}
		return b
	}
	p.addError("text.format.type", "expected text, json_object or json_schema")
	return nil
}
