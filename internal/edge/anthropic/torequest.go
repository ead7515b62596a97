package anthropic

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

// ToRequest converts the request to a model's. Errors: fault.Invalid with every
// invalid field.
func (r *Request) ToRequest() (model.Request, error) {
	t, tools := r.Prompt.read()
	req := model.Request{
		Messages: t.out, Tools: tools, MaxTokens: r.MaxTokens, Temperature: r.Temperature, TopP: r.TopP, Stop: r.StopSequences,
	}
	for i, stop := range r.StopSequences {
		if stop == "" {
			t.add("stop_sequences["+strconv.Itoa(i)+"]", "expected at least 1 character")
		}
	}
	if len(r.Metadata) > 0 {
		for name, value := range members(r.Metadata) {
			if name == "user_id" && !absent(value) && value[0] != '"' {
				t.add("metadata.user_id", notString)
			}
		}
	}
	r.applyToolChoice(&req, t)
	r.applyFormat(&req)
	return req, t.err()
}

// read converts the messages and the tools.
func (p *Prompt) read() (*messageBuilder, []model.ToolSpec) {
	t := &messageBuilder{}
	t.addPrompt(p)
	var specs []model.ToolSpec
	for i := range p.Tools {
		tool := &p.Tools[i]
		if !tool.custom() {
			continue
		}
		at := "tools[" + strconv.Itoa(i) + "]."
		if tool.Name == "" {
			t.add(at+"name", "required but missing")
		}
		spec := model.ToolSpec{Name: tool.Name, Parameters: tool.InputSchema}
		if tool.Description != nil {
			spec.Description = *tool.Description
		}
		switch kind(tool.InputSchema) {
		case '{':
		case 0, 'n': // several endpoints reject a tool without a schema
			spec.Parameters = jsontext.Value(`{"type":"object","properties":{}}`)
		default:
			t.add(at+"input_schema", "expected an object")
		}
		specs = append(specs, spec)
	}
	return t, specs
}

// applyToolChoice sets whether the model calls tools.
func (r *Request) applyToolChoice(req *model.Request, t *messageBuilder) {
	c := r.ToolChoice
	if c == nil {
		return
	}
	switch c.Type {
	case "none":
		req.ToolChoice = jsontext.Value(`"none"`)
	case "any":
		req.ToolChoice = jsontext.Value(`"required"`)
	case "tool":
		name := ""
		if c.Name != nil {
			name = *c.Name
		}
		named := func(t Tool) bool { return t.Name == name }
		switch i := slices.IndexFunc(r.Tools, named); {
		case i < 0 || name == "":
			t.add("tool_choice.name", "expected the name of one of the tools")
			return
		case !r.Tools[i].custom():
			return // a server tool, which is not offered
		}
		req.ToolChoice = append(appendString(jsontext.Value(`{"type":"function","function":{"name":`), name), `}}`...)
	}
	if c.DisableParallel != nil && *c.DisableParallel && len(req.Tools) > 0 {
		req.Extra = map[string]jsontext.Value{"parallel_tool_calls": jsontext.Value("false")}
	}
}

// applyThinkingBudget sets how much the model may reason, if the field for that is
// configured.
func (r *Request) applyThinkingBudget(req *model.Request, caps model.Capabilities) {
	if r.Thinking == nil || r.Thinking.Type != "enabled" || r.Thinking.Budget == nil || *r.Thinking.Budget <= 0 {
		return
	}
	field, value := caps.BudgetField(*r.Thinking.Budget)
	if field == "" {
		return
	}
	if req.Extra == nil {
		req.Extra = map[string]jsontext.Value{}
	}
	req.Extra[field] = value
}
