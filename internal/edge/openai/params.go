package openai

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ptr"
	"agentd/internal/base/text"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/jsonform"
)

// maxExtra bounds the bytes of parameters that a run stores and sends with each of
// its model calls.
const maxExtra = 256 << 10

// extra returns the parameters that are passed on unchanged. Null counts as absent.
func (r *ChatRequest) extra(errs *fieldErrors) map[string]jsontext.Value {
	fields := map[string]jsontext.Value{}
	size := 0
	put := func(name string, value jsontext.Value) {
		if k := value.Kind(); k != 0 && k != 'n' {
			fields[name] = value
			size += len(value)
		}
	}
	put("response_format", r.responseFormat(errs))
	put("logit_bias", jsontext.Value(r.LogitBias))
	if r.ParallelToolCalls != nil {
		put("parallel_tool_calls", strconv.AppendBool(nil, *r.ParallelToolCalls))
	}
	if r.Seed != nil {
		put("seed", strconv.AppendInt(nil, *r.Seed, 10))
	}
	for name, n := range map[string]*float64{"presence_penalty": r.PresencePenalty, "frequency_penalty": r.FrequencyPenalty} {
		if n != nil {
			put(name, strconv.AppendFloat(nil, *n, 'g', -1, 64))
		}
	}
	for name, word := range map[string]*string{"reasoning_effort": r.ReasoningEffort, "verbosity": r.Verbosity} {
		if ptr.Value(word) != "" {
			put(name, quote(*word))
		}
	}
	if size > maxExtra {
		errs.add("response_format", "response_format and logit_bias together are longer than 256 KiB")
	}
	if len(fields) == 0 {
		return nil
	}
	return fields
}

// responseFormat validates response_format as far as every endpoint does.
func (r *ChatRequest) responseFormat(errs *fieldErrors) jsontext.Value {
	value := jsontext.Value(r.ResponseFormat)
	if value.Kind() != '{' {
		return nil
	}
	var format struct {
		Type   jsontext.Value `json:"type"`
		Schema jsontext.Value `json:"json_schema"`
	}
	_ = json.Unmarshal(value, &format) // it is an object
	switch string(format.Type) {
	case `"text"`:
		return nil // the default of every model
	case `"json_object"`:
	case `"json_schema"`:
		var described struct {
			Name   jsontext.Value `json:"name"`
			Schema jsontext.Value `json:"schema"`
		}
		if format.Schema.Kind() != '{' || json.Unmarshal(format.Schema, &described) != nil || described.Name.Kind() != '"' {
			errs.add("response_format.json_schema", "expected an object with a name and a schema")
		} else if k := described.Schema.Kind(); k != 0 && k != '{' {
			errs.add("response_format.json_schema.schema", "expected a JSON Schema, which is an object")
		} else if _, err := jsonform.OfResponseFormat(value); err != nil {
			errs.add("response_format.json_schema.schema", unusableSchema(err))
		}
	default:
		errs.add("response_format.type", "expected text, json_object or json_schema")
	}
	return value
}

// unusableSchema says why answers cannot be checked against a schema, which may not
// refer to others.
func unusableSchema(err error) string {
	reason := text.Truncate(text.OneLine(strings.TrimPrefix(err.Error(), jsonform.ErrSchema.Error()+": ")), 300)
	return "expected a JSON Schema that answers can be checked against: " + reason
}

// tools returns the client's tools that the model may call, and the choice that is
// passed on. A choice without tools is dropped. With the choice none the client's
// tools are not offered; the agent's own tools are not affected.
func (r *ChatRequest) tools(errs *fieldErrors) (tools []run.CallerTool, choice jsontext.Value) {
	if k := r.Functions.Kind(); k != 0 && k != 'n' && string(r.Functions) != "[]" {
		errs.add("functions", "functions is not supported: send each as {\"type\": \"function\", \"function\": …} in tools, and "+
			"function_call as tool_choice")
	}
	for i, t := range r.Tools {
		at := "tools[" + strconv.Itoa(i) + "]"
		switch {
		case t.Type != "" && t.Type != "function":
			errs.add(at+".type", "expected function: clients can bring no other type of tool")
		case t.Function == nil:
			errs.add(at+".function", "is required")
		default:
			f := t.Function
			tools = append(tools, run.CallerTool{Name: f.Name, Description: f.Description, Parameters: f.Parameters,
				Strict: f.Strict != nil && *f.Strict})
		}
	}
	return r.toolChoice(tools, errs)
}

const toolChoiceForms = "expected auto, none, required or an object that names a function in tools"

func (r *ChatRequest) toolChoice(tools []run.CallerTool, errs *fieldErrors) ([]run.CallerTool, jsontext.Value) {
	switch r.ToolChoice.Kind() {
	case 0, 'n':
		return tools, nil
	case '"':
		return choiceByMode(tools, unquote(r.ToolChoice), errs)
	case '{':
	default:
		errs.add("tool_choice", toolChoiceForms)
		return tools, nil
	}
	type named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	var choice struct {
		named
		Allowed struct {
			Mode  string  `json:"mode"`
			Tools []named `json:"tools"`
		} `json:"allowed_tools"`
	}
	if json.Unmarshal(r.ToolChoice, &choice) != nil {
		errs.add("tool_choice", toolChoiceForms)
		return tools, nil
	}
	known := func(n named) bool {
		return slices.ContainsFunc(tools, func(t run.CallerTool) bool { return t.Name == n.Function.Name })
	}
	switch {
	case choice.Type == "function" && known(choice.named):
		return tools, r.ToolChoice
	case choice.Type == "allowed_tools" && len(choice.Allowed.Tools) > 0 &&
		!slices.ContainsFunc(choice.Allowed.Tools, func(n named) bool { return !known(n) }):
		// Few endpoints support allowed_tools; offering only those has the same effect.
		tools = slices.DeleteFunc(tools, func(t run.CallerTool) bool {
			return !slices.ContainsFunc(choice.Allowed.Tools, func(n named) bool { return n.Function.Name == t.Name })
		})
		return choiceByMode(tools, choice.Allowed.Mode, errs)
	}
	if len(*errs) == 0 {
		errs.add("tool_choice", toolChoiceForms)
	}
	return tools, nil
}

// choiceByMode returns the tools and the choice for a choice that is one word.
func choiceByMode(tools []run.CallerTool, mode string, errs *fieldErrors) ([]run.CallerTool, jsontext.Value) {
	switch mode {
	case "none":
		return nil, nil
	case "auto":
	case "required":
		if len(tools) > 0 {
			return tools, jsontext.Value(`"required"`)
		}
	default:
		errs.add("tool_choice", toolChoiceForms)
	}
	return tools, nil
}
