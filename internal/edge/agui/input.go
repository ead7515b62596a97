package agui

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/edge/pagechat"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/kernel/model"
)

// RunInput is the body of a request: the protocol's RunAgentInput. Unknown members are
// accepted and ignored, because newer clients send them.
type RunInput struct {
	_ struct{} `json:"-" name:"AguiRunInput"`

	ThreadID        string     `json:"threadId" required:"true" minLength:"1" maxLength:"128" doc:"The page's id of the conversation; the external_id of its session."`
	RunID           string     `json:"runId" required:"true" minLength:"1" maxLength:"128" doc:"The page's id of this run, repeated in the events. It is not the id of the platform's run, which is in the header X-Run-Id."`
	ProtocolVersion *string    `json:"protocolVersion,omitzero" nullable:"true" maxLength:"32" doc:"Version of the protocol that the client speaks. Default: an older one, without outcomes' new members."`
	State           schema.Any `json:"state,omitzero" doc:"What the page shares with the agent, any JSON. It replaces the session's state, and lets the agent change it with the tool set_state. {} counts as none."`
	Messages        []Message  `json:"messages" required:"true" maxItems:"10000" doc:"The history, oldest message first, or only what is new. What the session knows by its id is not told again."`
	Tools           []Tool     `json:"tools,omitzero" nullable:"true" maxItems:"128" doc:"Tools that the page runs: the run ends with calls of them, and their results come with the next one."`
	Context         []Context  `json:"context,omitzero" nullable:"true" maxItems:"100" doc:"What the agent is told for this run beside the messages."`
	Resume          []Resume   `json:"resume,omitzero" nullable:"true" maxItems:"100" doc:"Answers to the interrupts of the run before: all of them."`
}

// Message is a message of the history.
type Message struct {
	_ struct{} `json:"-" name:"AguiMessage"`

	ID         string         `json:"id" required:"true" minLength:"1" maxLength:"256" doc:"The page's id of the message, or that of an event."`
	Role       string         `json:"role" required:"true" maxLength:"32" doc:"user, assistant, system, developer or tool. Messages of other roles are ignored."`
	Content    jsontext.Value `json:"content,omitzero" doc:"A text, or a list of parts of the types text, image, audio and document."`
	ToolCalls  []ToolCall     `json:"toolCalls,omitzero" nullable:"true" maxItems:"1000" doc:"Of the role assistant: the calls that it made."`
	ToolCallID *string        `json:"toolCallId,omitzero" nullable:"true" maxLength:"256" doc:"Of the role tool: the call that the message answers."`
	Error      *string        `json:"error,omitzero" nullable:"true" maxLength:"100000" doc:"Of the role tool: why the call failed; the agent gets it after the content."`
}

// ToolCall is a call of a tool.
type ToolCall struct {
	_ struct{} `json:"-" name:"AguiToolCall"`

	ID       string   `json:"id" required:"true" maxLength:"256" doc:"The call, which its result names."`
	Function Function `json:"function" required:"true" doc:"The tool and its arguments."`
}

// Function is a called tool.
type Function struct {
	_ struct{} `json:"-" name:"AguiFunctionCall"`

	Name      string `json:"name" required:"true" maxLength:"64" doc:"Name of the tool."`
	Arguments string `json:"arguments" required:"true" doc:"Arguments, as JSON in a string."`
}

// Tool is a tool of the page.
type Tool struct {
	_ struct{} `json:"-" name:"AguiTool"`

	Name        string         `json:"name" required:"true" doc:"Name of the tool: letters, digits, _ and -, at most 64."`
	Description string         `json:"description,omitzero" doc:"What the tool does, for the model."`
	Parameters  jsontext.Value `json:"parameters,omitzero" doc:"A JSON Schema of the arguments."`
}

// Context is something that the agent reads beside the messages.
type Context struct {
	_ struct{} `json:"-" name:"AguiContext"`

	Description string `json:"description" required:"true" doc:"What the value is."`
	Value       string `json:"value" required:"true" doc:"The value, as text."`
}

// Resume is an answer to an interrupt.
type Resume struct {
	_ struct{} `json:"-" name:"AguiResume"`

	InterruptID string         `json:"interruptId" required:"true" minLength:"1" maxLength:"128" doc:"The interrupt, as RUN_FINISHED named it."`
	Status      string         `json:"status" required:"true" enum:"resolved,cancelled" doc:"resolved: the payload is the answer. cancelled: the run is cancelled."`
	Payload     jsontext.Value `json:"payload,omitzero" doc:"Of an approval {approved, reason}, of a question {answer} or a text; see the interrupt's responseSchema."`
}

// source is the metadata.source of runs.
const source = "agui"

// page converts a request. Errors: Invalid with every invalid field.
func (in *RunInput) page(agentID string) (*pagechat.Page, error) {
	p := &pagechat.Page{AgentID: agentID, ChatID: in.ThreadID, Source: source}
	var wrong []fault.Field
	if message := session.CheckExternalID(in.ThreadID); message != "" {
		wrong = append(wrong, fault.Field{Field: "threadId", Message: message})
	}
	var told []string
	for i := range in.Messages {
		m := &in.Messages[i]
		at := "messages[" + strconv.Itoa(i) + "]"
		out := pagechat.Message{At: at, ID: m.ID}
		var bad string
		if out.Text, out.Parts, bad = content(m.Content); bad != "" {
			wrong = append(wrong, fault.Field{Field: at + ".content", Message: bad})
			continue
		}
		switch m.Role {
		case "system", "developer":
			told = append(told, out.Text)
			continue
		case "user":
			out.Role = model.User
		case "assistant":
			out.Role, out.Reply = model.Assistant, m.ID
			for _, c := range m.ToolCalls {
				out.Calls = append(out.Calls, model.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
			}
		case "tool":
			if m.ToolCallID == nil || *m.ToolCallID == "" {
				wrong = append(wrong, fault.Field{Field: at + ".toolCallId", Message: "required for a message of the role tool"})
				continue
			}
			out.Role, out.Reply, out.CallID, out.Parts = model.Tool, m.ID, *m.ToolCallID, nil
			if m.Error != nil && *m.Error != "" {
				out.Text = strings.TrimSpace(out.Text + "\nThe call failed: " + *m.Error)
			}
		default:
			continue
		}
		p.Messages = append(p.Messages, out)
	}
	for _, t := range in.Tools {
		p.Tools = append(p.Tools, run.CallerTool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	wrong = append(wrong, pagechat.CheckTools(p.Tools)...)
	var err error
	if p.State, err = in.state(); err != nil {
		wrong = append(wrong, fault.From(err).Fields...)
	}
	for _, c := range in.Context {
		told = append(told, c.Description+":\n"+c.Value)
	}
	p.Instructions = strings.Join(told, "\n\n")
	wrong = append(wrong, pagechat.CheckInstructions(p.Instructions)...)
	if len(wrong) > 0 {
		return nil, fault.BadFields(wrong...)
	}
	return p, nil
}

// state returns the state that the page sent; nil if it sent none. The official client
// sends {} where it has none.
func (in *RunInput) state() (jsontext.Value, error) {
	state := jsontext.Value(in.State)
	if len(state) == 0 || state.Kind() == 'n' {
		return nil, nil
	}
	state, err := session.CheckState("state", state)
	if string(state) == "{}" {
		return nil, err
	}
	return state, err
}

// shareState tells the agent the state that it shares with the page.
func shareState(p *pagechat.Page, state jsontext.Value) {
	if state == nil {
		return
	}
	p.SharesState = true
	p.Instructions = strings.TrimSpace(p.Instructions + "\n\nState that you share with the user's page; change it with " +
		session.SetState + ":\n" + string(state))
}

// part is a part of a message's content, of this version of the protocol or an earlier one.
type part struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Source struct {
		Type     string `json:"type"`
		Value    string `json:"value"`
		MimeType string `json:"mimeType"`
	} `json:"source"`
	MimeType string `json:"mimeType"` // of the type binary, until 0.0.4x
	URL      string `json:"url"`
	Data     string `json:"data"`
	Filename string `json:"filename"`
}

const maxParts = 100

// content returns the text of a message, and its parts if they are more than that.
func content(v jsontext.Value) (text string, parts []jsontext.Value, wrong string) {
	switch v.Kind() {
	case 0, 'n':
		return "", nil, ""
	case '"':
		if err := json.Unmarshal(v, &text); err != nil {
			return "", nil, "it is not a valid text"
		}
		return text, nil, ""
	case '[':
	default:
		return "", nil, "expected a text or a list of parts"
	}
	var all []part
	if err := json.Unmarshal(v, &all); err != nil {
		return "", nil, "expected parts that are objects with a type, and a text or a source"
	}
	if len(all) > maxParts {
		return "", nil, "there are more than 100 parts"
	}
	plain := true
	var texts []string
	for i := range all {
		p, ok := all[i].wire()
		if !ok {
			return "", nil, "the part " + strconv.Itoa(i) + " is none that an agent can read: text, or an image, audio or document with data " +
				"(images also with an http or https address)"
		}
		if all[i].Type == "text" {
			texts = append(texts, all[i].Text)
		} else {
			plain = false
		}
		parts = append(parts, p)
	}
	text = strings.Join(texts, "\n")
	if plain {
		return text, nil, ""
	}
	return text, parts, ""
}

// wire returns a part as models read it.
func (p *part) wire() (jsontext.Value, bool) {
	kind, value, mime := p.Type, p.Source.Value, p.Source.MimeType
	if kind == "binary" {
		kind, mime, value = binaryKind(p.MimeType), p.MimeType, p.Data
		p.Source.Type = "data"
		if p.Data == "" {
			p.Source.Type, value = "url", p.URL
		}
	}
	inline := p.Source.Type == "data" && value != "" && mime != ""
	switch {
	case kind == "text":
		return model.TextPart(p.Text), true
	case kind == "image" && p.Source.Type == "url":
		return pagechat.ImagePart(value)
	case kind == "image" && inline:
		return pagechat.ImagePart("data:" + mime + ";base64," + value)
	case kind == "audio" && inline:
		audio := map[string]string{"data": value, "format": strings.TrimPrefix(mime, "audio/")}
		return encoded(map[string]any{"type": "input_audio", "input_audio": audio})
	case kind == "document" && inline:
		name := p.Filename
		if name == "" {
			name = "document"
		}
		file := map[string]string{"file_data": "data:" + mime + ";base64," + value, "filename": name}
		return encoded(map[string]any{"type": "file", "file": file})
	}
	return nil, false
}

func binaryKind(mime string) string {
	switch family, _, _ := strings.Cut(mime, "/"); family {
	case "image", "audio":
		return family
	}
	return "document"
}

func encoded(v any) (jsontext.Value, bool) {
	b, err := json.Marshal(v, json.Deterministic(true)) // the message is recognized by its bytes
	return b, err == nil
}
