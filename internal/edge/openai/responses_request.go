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
	"agentd/internal/kernel/model"
)

// ResponsesSource is metadata.source of the runs of POST /v1/responses.
const ResponsesSource = "responses"

// ResponseRequest is what is read of POST /v1/responses. Other members are
// accepted and ignored, as newer clients send them.
type ResponseRequest struct {
	Model    string         `json:"model" required:"true" doc:"An agent's id, or agent/ and the id."`
	Input    jsontext.Value `json:"input" required:"true" doc:"A string, or an array of input items: messages, function_call, function_call_output, reasoning, item_reference."`
	Previous *string        `json:"previous_response_id,omitzero" nullable:"true" doc:"The response to go on from: it and all before it are the history."`

	Instructions *string `json:"instructions,omitzero" nullable:"true" doc:"For this call only; the agent's own prompt stays."`
	Stream       *bool   `json:"stream,omitzero" nullable:"true"`
	Background   *bool   `json:"background,omitzero" nullable:"true" doc:"True, and no stream: the answer comes at once, with status queued; read it back by its id."`

	Temperature     *float64        `json:"temperature,omitzero" nullable:"true" minimum:"0" maximum:"2"`
	TopP            *float64        `json:"top_p,omitzero" nullable:"true" minimum:"0" maximum:"1"`
	MaxOutputTokens *int            `json:"max_output_tokens,omitzero" nullable:"true" doc:"Of each model call. Less than 1 counts as 1."`
	Tools           []ResponseTool  `json:"tools,omitzero" nullable:"true" maxItems:"1000" doc:"Tools that the caller runs itself. Those of another type than function are left out."`
	ToolChoice      jsontext.Value  `json:"tool_choice,omitzero" doc:"A string or an object, as OpenAI has them."`
	Parallel        *bool           `json:"parallel_tool_calls,omitzero" nullable:"true"`
	Text            schema.Nullable `json:"text,omitzero" doc:"Its format says what the answer is to look like: text, json_object or json_schema."`
	Reasoning       schema.Nullable `json:"reasoning,omitzero" doc:"Its effort says how hard the model is to think."`
	Metadata        schema.Nullable `json:"metadata,omitzero" doc:"Repeated in the answer; the run has it as metadata.client_metadata."`

	// Silence about these two would be an answer to another question.
	Conversation jsontext.Value `json:"conversation,omitzero" doc:"Not there; use previous_response_id."`
	Prompt       jsontext.Value `json:"prompt,omitzero" doc:"Not there; an agent has its own prompt."`
}

// ResponseTool is a tool as the responses shape has them.
type ResponseTool struct {
	Type        string         `json:"type" required:"true"`
	Name        string         `json:"name,omitzero" doc:"Of a function."`
	Description *string        `json:"description,omitzero" nullable:"true"`
	Parameters  jsontext.Value `json:"parameters,omitzero" doc:"A JSON Schema."`
	Strict      *bool          `json:"strict,omitzero" nullable:"true"`
}

const functionTool = "function"

// AgentID gives the agent that the request is for.
func (r *ResponseRequest) AgentID() string { return strings.TrimPrefix(r.Model, agentPrefix) }

// Streams says whether the answer is an event stream.
func (r *ResponseRequest) Streams() bool { return r.Stream != nil && *r.Stream }

// InBackground says whether nobody waits for the answer.
func (r *ResponseRequest) InBackground() bool { return r.Background != nil && *r.Background }

// echoedParams is what of a request its answers repeat, beside what its run says.
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
}

func (r *ResponseRequest) echoed() echoedParams {
	return echoedParams{
		r.Model, r.Instructions, r.InBackground(), r.MaxOutputTokens, r.Temperature, r.TopP, r.ToolChoice, r.Parallel, r.Text, r.Reasoning,
	}
}

// runStart is how a request goes on as a run: standing are instructions that later
// responses of the chain have too.
type runStart struct {
	run.Request
	standing string
}

// runStart turns the request into a run's. open are calls of the response before
// it, and known gives earlier items by id. Errors: fault.Invalid with every
// field that cannot be read.
func (r *ResponseRequest) runStart(open []model.ToolCall, known func(id string) (OutputItem, bool)) (runStart, error) {
	p := inputReader{lookup: known}
	p.addOpenCalls(open)
	p.read(r.Input)
	c := runStart{standing: strings.Join(p.instructions, "\n\n")}
	c.Options = r.options(&p)
	if r.Conversation.Kind() != 0 && r.Conversation.Kind() != 'n' {
		p.addError("conversation", "conversations are not kept by an id of their own here; send previous_response_id, or the earlier items as input")
	}
	if r.Prompt.Kind() != 0 && r.Prompt.Kind() != 'n' {
		p.addError("prompt", "there are no stored prompts here; the agent has its own, and instructions can be sent")
	}
	in := p.runInput()
	in.Instructions = strings.Join(slices.DeleteFunc([]string{ptr.Value(r.Instructions), c.standing}, func(s string) bool { return s == "" }), "\n\n")
	if len(p.errors) == 0 && len(in.History) == 0 && in.Message == "" && len(in.Parts) == 0 && in.Instructions == "" {
		p.addError("input", "there is nothing to answer: no item has content")
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
	c.AgentID, c.Input, c.Parsed = r.AgentID(), input, &in
	c.Options.Follows = ptr.Value(r.Previous)
	return c, nil
}

// options are how the caller wants the model to be called.
func (r *ResponseRequest) options(p *inputReader) run.Options {
	o := run.Options{Plain: !r.Streams(), Temperature: r.Temperature, TopP: r.TopP, Extra: map[string]jsontext.Value{}}
	if r.MaxOutputTokens != nil {
		o.MaxTokens = max(1, *r.MaxOutputTokens)
	}
	for i, t := range r.Tools {
		if t.Type != functionTool {
			continue
		}
		field := "tools[" + strconv.Itoa(i) + "]."
		if t.Name == "" {
			p.addError(field+"name", "required of a function")
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
	if format := r.format(p); format != nil {
		o.Extra["response_format"] = format
	}
	if r.Parallel != nil {
		o.Extra["parallel_tool_calls"] = jsontext.Value(strconv.FormatBool(*r.Parallel))
	}
	var think struct {
		Effort *string `json:"effort"`
	}
	if len(r.Reasoning) > 0 && json.Unmarshal(r.Reasoning, &think) != nil {
		p.addError("reasoning.effort", "expected a string")
	}
	if ptr.Value(think.Effort) != "" {
		o.Extra["reasoning_effort"] = quote(*think.Effort)
	}
	if len(o.Extra) == 0 {
		o.Extra = nil
	}
	return o
}

// toolChoice gives the choice as model endpoints have it: theirs names a
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

// format gives text.format as model endpoints have it, which they call
// response_format. Nil: text.
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
		p.addError("text.format", "it cannot be read: expected an object with a type, and for json_schema a name and a schema")
		return nil
	}
	switch f := text.Format; f.Type {
	case "", "text":
		return nil
	case "json_object":
		return jsontext.Value(`{"type":"json_object"}`)
	case "json_schema":
		if f.Name == "" {
			p.addError("text.format.name", "required of a json_schema")
		}
		if f.Schema.Kind() != '{' {
			p.addError("text.format.schema", "expected a JSON Schema, which is an object")
		}
		b, err := json.Marshal(struct {
			Type   string `json:"type"`
			Schema named  `json:"json_schema"`
		}{f.Type, f.named})
		if err != nil {
			p.addError("text.format", "it cannot be read")
		}
		return b
	}
	p.addError("text.format.type", "expected text, json_object or json_schema")
	return nil
}
