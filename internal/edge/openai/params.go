package openai

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ptr"
	"agentd/internal/execution/run"
)

// maxExtra is how many bytes of wishes a run keeps: they go with each of its
// model calls.
const maxExtra = 256 << 10

// extra gives what goes to the model as it came. Null is as if absent.
func (r *ChatRequest) extra(wrong *fieldErrors) map[string]jsontext.Value {
	fields := map[string]jsontext.Value{}
	size := 0
	put := func(name string, value jsontext.Value) {
		if k := value.Kind(); k != 0 && k != 'n' {
			fields[name] = value
			size += len(value)
		}
	}
	put("response_format", r.responseFormat(wrong))
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
		wrong.add("response_format", "together with logit_bias it is longer than 256 KiB")
	}
	if len(fields) == 0 {
		return nil
	}
	return fields
}

// responseFormat checks response_format as far as every endpoint would.
func (r *ChatRequest) responseFormat(wrong *fieldErrors) jsontext.Value {
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
		return nil // what every model does unasked
	case `"json_object"`:
	case `"json_schema"`:
		var described struct {
			Name   jsontext.Value `json:"name"`
			Schema jsontext.Value `json:"schema"`
		}
		if format.Schema.Kind() != '{' || json.Unmarshal(format.Schema, &described) != nil || described.Name.Kind() != '"' {
			wrong.add("response_format.json_schema", "expected an object with a name and a schema")
		} else if k := described.Schema.Kind(); k != 0 && k != '{' {
			wrong.add("response_format.json_schema.schema", "expected a JSON Schema, which is an object")
		}
	default:
		wrong.add("response_format.type", "expected text, json_object or json_schema")
	}
	return value
}

// tools gives the caller's tools that the model may call, and whether it must
// call one. A choice without tools says nothing; with none the caller's are not
// offered, and the agent's own are what they always are.
func (r *ChatRequest) tools(wrong *fieldErrors) (tools []run.CallerTool, choice jsontext.Value) {
	if k := r.Functions.Kind(); k != 0 && k != 'n' && string(r.Functions) != "[]" {
		wrong.add("functions", "the form of before tools is not taken: send each as {\"type\": \"function\", \"function\": …} in tools, and function_call as tool_choice")
	}
	for i, t := range r.Tools {
		at := "tools[" + strconv.Itoa(i) + "]"
		switch {
		case t.Type != "" && t.Type != "function":
			wrong.add(at+".type", "expected function: the caller can bring no other kind of tool, and an agent has its own")
		case t.Function == nil:
			wrong.add(at+".function", "is required")
		default:
			f := t.Function
			tools = append(tools, run.CallerTool{Name: f.Name, Description: f.Description, Parameters: f.Parameters, Strict: f.Strict != nil && *f.Strict})
		}
	}
	return r.toolChoice(tools, wrong)
}

const toolChoiceForms = "expected auto, none or required, or an object that names a function of tools"

func (r *ChatRequest) toolChoice(tools []run.CallerTool, wrong *fieldErrors) ([]run.CallerTool, jsontext.Value) {
	switch r.ToolChoice.Kind() {
	case 0, 'n':
		return tools, nil
	case '"':
		return choiceByMode(tools, unquote(r.ToolChoice), wrong)
	case '{':
	default:
		wrong.add("tool_choice", toolChoiceForms)
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
		wrong.add("tool_choice", toolChoiceForms)
		return tools, nil
	}
	known := func(n named) bool {
		return slices.ContainsFunc(tools, func(t run.CallerTool) bool { return t.Name == n.Function.Name })
	}
	switch {
	case choice.Type == "function" && known(choice.named):
		return tools, r.ToolChoice
	case choice.Type == "allowed_tools" && len(choice.Allowed.Tools) > 0 && !slices.ContainsFunc(choice.Allowed.Tools, func(n named) bool { return !known(n) }):
		// Few endpoints know it, and all know fewer tools.
		tools = slices.DeleteFunc(tools, func(t run.CallerTool) bool {
			return !slices.ContainsFunc(choice.Allowed.Tools, func(n named) bool { return n.Function.Name == t.Name })
		})
		return choiceByMode(tools, choice.Allowed.Mode, wrong)
	}
	if len(*wrong) == 0 {
		wrong.add("tool_choice", toolChoiceForms)
	}
	return tools, nil
}

// choiceByMode is the choice that is one word.
func choiceByMode(tools []run.CallerTool, mode string, wrong *fieldErrors) ([]run.CallerTool, jsontext.Value) {
	switch mode {
	case "none":
		return nil, nil
	case "auto":
	case "required":
		if len(tools) > 0 {
			return tools, jsontext.Value(`"required"`)
		}
	default:
		wrong.add("tool_choice", toolChoiceForms)
	}
	return tools, nil
}
