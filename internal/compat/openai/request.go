package openai

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/fault"
	"agentd/internal/model"
	"agentd/internal/run"
	"agentd/internal/schema"
)

// Source is what the runs of POST /v1/chat/completions say of where they came
// from, in metadata.source (decisions.md D10).
const Source = "chat_completions"

// RunRequest turns the request into a run. Messages of system and developer
// become the caller's instructions; the last message, if it is the user's, is
// the run's, the others are its history. Errors: fault.Invalid for the fields
// that cannot be read.
func (r *ChatRequest) RunRequest() (run.Request, error) {
	in, err := r.input()
	if err != nil {
		return run.Request{}, err
	}
	options, err := r.options()
	if err != nil {
		return run.Request{}, err
	}
	input, err := json.Marshal(in)
	if err != nil {
		return run.Request{}, err
	}
	metadata, err := r.metadata()
	if err != nil {
		return run.Request{}, err
	}
	return run.Request{AgentID: r.AgentID(), Input: input, Parsed: &in, Metadata: metadata, Options: options}, nil
}

func (r *ChatRequest) input() (run.Input, error) {
	var in run.Input
	var instructions []string
	turns := make([]model.Message, 0, len(r.Messages))
	allParts := 0
	for i := range r.Messages {
		m := &r.Messages[i]
		text, parts, err := content(m.Content)
		if err != nil {
			return in, wrong(i, "content", err.Error())
		}
		if allParts += len(parts); allParts > maxAllParts {
			return in, wrong(i, "content", errParts.Error())
		}
		switch m.Role {
		case "system", "developer":
			if parts != nil {
				return in, wrong(i, "content", "instructions are text: only parts of type text can be in a message of role "+m.Role)
			}
			if text != "" {
				instructions = append(instructions, text)
			}
			continue
		case "tool":
			if deref(m.ToolCallID) == "" {
				return in, wrong(i, "tool_call_id", "required in a message of role tool: the id of the call that it answers")
			}
		}
		turns = append(turns, m.turn(text, parts))
	}
	if n := len(turns); n > 0 && turns[n-1].Role == model.User {
		in.Message, in.Parts = turns[n-1].Text, turns[n-1].Parts
		turns = turns[:n-1]
	}
	if len(turns) == 0 && in.Message == "" && len(in.Parts) == 0 && len(instructions) == 0 {
		return in, fault.BadFields(fault.Field{Field: "messages", Message: "there is nothing to answer: no message has content"})
	}
	if len(turns) > 0 {
		in.History = turns
	}
	in.Instructions = strings.Join(instructions, "\n\n")
	return in, nil
}

func wrong(message int, field, complaint string) error {
	return fault.BadFields(fault.Field{Field: "messages[" + strconv.Itoa(message) + "]." + field, Message: complaint})
}

// options are how the caller wants the model to be called.
func (r *ChatRequest) options() (run.Options, error) {
	o := run.Options{Plain: !r.Streams(), Temperature: r.Temperature, TopP: r.TopP}
	switch r.ToolChoice.Kind() {
	case 0, 'n':
	case '"', '{':
		o.ToolChoice = r.ToolChoice
	default:
		return o, fault.BadFields(fault.Field{Field: "tool_choice", Message: "expected a string or an object"})
	}
	for _, limit := range []*int{r.MaxTokens, r.MaxCompletionTokens} {
		if limit != nil {
			o.MaxTokens = max(1, *limit)
		}
	}
	var err error
	if o.Stop, err = r.stop(); err != nil {
		return o, err
	}
	for _, t := range r.Tools {
		o.Tools = append(o.Tools, run.CallerTool{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
	}
	return o, nil
}

func (r *ChatRequest) stop() (texts []string, err error) {
	switch r.Stop.Kind() {
	case 0, 'n':
		return nil, nil
	case '"':
		texts = []string{unquote(r.Stop)}
	default:
		err = json.Unmarshal(r.Stop, &texts)
	}
	if err != nil {
		return nil, fault.BadFields(fault.Field{Field: "stop", Message: "expected a string or an array of strings"})
	}
	return texts, nil
}

func (r *ChatRequest) metadata() (schema.Object, error) { return sourced(Source, r.Metadata) }

// sourced is the metadata of a run that a caller's request made.
func sourced(source string, of schema.Nullable) (schema.Object, error) {
	if len(of) == 0 {
		return schema.Object(`{"source":"` + source + `"}`), nil
	}
	return json.Marshal(struct {
		Source   string          `json:"source"`
		Metadata schema.Nullable `json:"client_metadata"`
	}{source, of})
}
