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

// Source is the metadata.source of the runs of POST /v1/chat/completions.
const Source = "chat_completions"

// RunRequest converts the request to a run's. Messages of the roles system and
// developer become instructions; the last message, if it is the user's, becomes
// the run's message, the others its history. Errors: fault.Invalid with every
// invalid field.
func (r *ChatRequest) RunRequest() (run.Request, error) {
	var errs fieldErrors
	in := r.input(&errs)
	options := r.options(&errs)
	if errs != nil {
		return run.Request{}, fault.BadFields(errs...)
	}
	input, err := json.Marshal(in)
	if err != nil {
		return run.Request{}, err
	}
	metadata, err := r.metadata()
	if err != nil {
		return run.Request{}, err
	}
	return run.Request{Input: input, Parsed: &in, MediaField: "messages", Metadata: metadata, Options: options}, nil
}

// fieldErrors collects invalid fields.
type fieldErrors []fault.Field

func (c *fieldErrors) add(field, message string) {
	*c = append(*c, fault.Field{Field: field, Message: message})
}

// message adds an error in a member of a message.
func (c *fieldErrors) message(i int, field, message string) {
	c.add("messages["+strconv.Itoa(i)+"]."+field, message)
}

// input converts the messages.
func (r *ChatRequest) input(errs *fieldErrors) run.Input {
	c := conversation{errs: errs, history: make([]model.Message, 0, len(r.Messages))}
	for i := range r.Messages {
		c.add(i, &r.Messages[i])
	}
	return c.input()
}

// conversation collects the messages of a request.
type conversation struct {
	errs         *fieldErrors
	instructions []string
	history      []model.Message
	parts        int // of all messages
}

// add converts the i-th message, unless its content is invalid.
func (c *conversation) add(i int, m *Message) {
	text, parts, err := content(m.Content)
	if err == nil {
		if c.parts += len(parts); c.parts > maxAllParts {
			err = errParts
		}
	}
	if err != nil {
		c.errs.message(i, "content", err.Error())
		return
	}
	switch m.Role {
	case "system", "developer":
		if parts != nil {
			c.errs.message(i, "content", "only parts of type text are allowed in a message of role "+m.Role)
		}
		if text != "" {
			c.instructions = append(c.instructions, text)
		}
		return
	case "assistant":
		if text == "" && parts == nil {
			text = ptr.Value(m.Refusal)
		}
	case "tool":
		if ptr.Value(m.ToolCallID) == "" {
			c.errs.message(i, "tool_call_id", "required in a message of role tool: the id of the call that it answers")
		}
	}
	c.history = append(c.history, m.turn(text, parts))
}

// input returns the run's input.
func (c *conversation) input() run.Input {
	in := run.Input{Instructions: strings.Join(c.instructions, "\n\n")}
	if n := len(c.history); n > 0 && c.history[n-1].Role == model.User {
		in.Message, in.Parts = c.history[n-1].Text, c.history[n-1].Parts
		c.history = c.history[:n-1]
	}
	if len(c.history) > 0 {
		in.History = c.history
	} else if *c.errs == nil && in.Message == "" && len(in.Parts) == 0 && len(c.instructions) == 0 {
		c.errs.add("messages", "no message has content")
	}
	return in
}

// options returns the settings of the run's model calls.
func (r *ChatRequest) options(errs *fieldErrors) run.Options {
	o := run.Options{Plain: !r.Streams(), Temperature: r.Temperature, TopP: r.TopP, Stop: r.stop(errs), Extra: r.extra(errs)}
	for _, limit := range []*int{r.MaxTokens, r.MaxCompletionTokens} {
		if limit != nil {
			o.MaxTokens = max(1, *limit)
		}
	}
	o.Tools, o.ToolChoice = r.tools(errs)
	return o
}

func (r *ChatRequest) stop(errs *fieldErrors) (texts []string) {
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
		errs.add("stop", "expected a string or an array of strings")
	}
	return texts
}

func (r *ChatRequest) metadata() (schema.Object, error) {
	return runMetadata(Source, r.Metadata, r.User)
}

// runMetadata returns the metadata of a run that a client's request starts.
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
