package openai

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// Source is what the runs of POST /v1/chat/completions say of where they came
// from, in metadata.source (decisions.md D10).
const Source = "chat_completions"

// RunRequest turns the request into a run. Messages of system and developer
// become the caller's instructions; the last message, if it is the user's, is
// the run's, the others are its history. Errors: fault.Invalid for the fields
// that cannot be read.
func (r *ChatRequest) RunRequest() (run.Request, error) {
	var wrong fieldErrors
	in := r.input(&wrong)
	options := r.options(&wrong)
	if wrong != nil {
		return run.Request{}, fault.BadFields(wrong...)
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

// fieldErrors gathers the fields that cannot be taken.
type fieldErrors []fault.Field

func (c *fieldErrors) add(field, message string) {
	*c = append(*c, fault.Field{Field: field, Message: message})
}

// message complains of a message's member.
func (c *fieldErrors) message(i int, field, complaint string) {
	c.add("messages["+strconv.Itoa(i)+"]."+field, complaint)
}

func (r *ChatRequest) input(wrong *fieldErrors) run.Input {
	var in run.Input
	var instructions []string
	turns := make([]model.Message, 0, len(r.Messages))
	allParts := 0
	for i := range r.Messages {
		m := &r.Messages[i]
		text, parts, err := content(m.Content)
		if err == nil {
			if allParts += len(parts); allParts > maxAllParts {
				err = errParts
			}
		}
		if err != nil {
			wrong.message(i, "content", err.Error())
			continue
		}
		switch m.Role {
		case "system", "developer":
			if parts != nil {
				wrong.message(i, "content", "instructions are text: only parts of type text can be in a message of role "+m.Role)
			}
			if text != "" {
				instructions = append(instructions, text)
			}
			continue
		case "assistant":
			if text == "" && parts == nil {
				text = ptr.Value(m.Refusal)
			}
		case "tool":
			if ptr.Value(m.ToolCallID) == "" {
				wrong.message(i, "tool_call_id", "required in a message of role tool: the id of the call that it answers")
			}
		}
		turns = append(turns, m.turn(text, parts))
	}
	if n := len(turns); n > 0 && turns[n-1].Role == model.User {
		in.Message, in.Parts = turns[n-1].Text, turns[n-1].Parts
		turns = turns[:n-1]
	}
	if *wrong == nil && len(turns) == 0 && in.Message == "" && len(in.Parts) == 0 && len(instructions) == 0 {
		wrong.add("messages", "there is nothing to answer: no message has content")
	}
	if len(turns) > 0 {
		in.History = turns
	}
	in.Instructions = strings.Join(instructions, "\n\n")
	return in
}

// options are how the caller wants the model to be called.
func (r *ChatRequest) options(wrong *fieldErrors) run.Options {
	o := run.Options{Plain: !r.Streams(), Temperature: r.Temperature, TopP: r.TopP, Stop: r.stop(wrong), Extra: r.extra(wrong)}
	for _, limit := range []*int{r.MaxTokens, r.MaxCompletionTokens} {
		if limit != nil {
			o.MaxTokens = max(1, *limit)
		}
	}
	o.Tools, o.ToolChoice = r.tools(wrong)
	return o
}

func (r *ChatRequest) stop(wrong *fieldErrors) (texts []string) {
	var err error
	switch r.Stop.Kind() {
	case 0, 'n':
		return nil
	case '"':
		return []string{unquote(r.Stop)}
	default:
		err = json.Unmarshal(r.Stop, &texts)
	}
	if err != nil {
		wrong.add("stop", "expected a string or an array of strings")
	}
	return texts
}

func (r *ChatRequest) metadata() (schema.Object, error) {
	return runMetadata(Source, r.Metadata, r.User)
}

// runMetadata is the metadata of a run that a caller's request made.
func runMetadata(source string, metadata schema.Nullable, user *string) (schema.Object, error) {
	if len(metadata) == 0 && user == nil {
		return schema.Object(`{"source":"` + source + `"}`), nil
	}
	return json.Marshal(struct {
		Source   string          `json:"source"`
		Metadata schema.Nullable `json:"client_metadata,omitzero"`
		User     *string         `json:"client_user,omitzero"`
	}{source, metadata, user})
}
