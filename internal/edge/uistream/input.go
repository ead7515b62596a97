package uistream

import (
	"slices"
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

// ChatInput is the body that a chat of the AI SDK sends. Unknown members are accepted and
// ignored, because newer clients send them.
type ChatInput struct {
	_ struct{} `json:"-" name:"UIChatInput"`

	ID       string        `json:"id" required:"true" minLength:"1" maxLength:"128" doc:"The page's id of the chat; the external_id of its session."`
	Messages []UIMessage   `json:"messages" required:"true" maxItems:"10000" doc:"The history, oldest message first, or only what is new. What the session knows by its id is not told again."`
	Trigger  *string       `json:"trigger,omitzero" nullable:"true" maxLength:"64" doc:"What the page did: submit-message or regenerate-message. What is told follows from the messages alone."`
	Tools    schema.Object `json:"tools,omitzero" doc:"Tools that the page runs, by name: {description, inputSchema}. Their results come with the next request."`
	System   *string       `json:"system,omitzero" nullable:"true" maxLength:"100000" doc:"What the agent is told for this run beside the messages."`
}

// UIMessage is a message of the history.
type UIMessage struct {
	_ struct{} `json:"-" name:"UIMessage"`

	ID    string           `json:"id" required:"true" minLength:"1" maxLength:"256" doc:"The page's id of the message, or that of a stream's start."`
	Role  string           `json:"role" required:"true" maxLength:"32" doc:"user, assistant or system. Messages of other roles are ignored."`
	Parts []jsontext.Value `json:"parts" required:"true" maxItems:"10000" doc:"Parts of the types text, file (images) and tool-<name>. Parts of other types are ignored."`
}

// part is a part of a message.
type part struct {
	Type             string         `json:"type"`
	Text             string         `json:"text"`
	MediaType        string         `json:"mediaType"`
	URL              string         `json:"url"`
	Filename         string         `json:"filename"`
	ToolCallID       string         `json:"toolCallId"`
	ToolName         string         `json:"toolName"`
	State            string         `json:"state"`
	Input            jsontext.Value `json:"input"`
	Output           jsontext.Value `json:"output"`
	ErrorText        string         `json:"errorText"`
	ProviderExecuted bool           `json:"providerExecuted"`
	Approval         struct {
		ID       string `json:"id"`
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	} `json:"approval"`
}

// tool returns the name of the tool whose call a part is; "" of another part.
func (p *part) tool() string {
	if p.Type == "dynamic-tool" {
		return p.ToolName
	}
	name, _ := strings.CutPrefix(p.Type, "tool-")
	if name == p.Type {
		return ""
	}
	return name
}

// source is the metadata.source of runs.
const source = "ai_sdk"

// request is a request as it is read.
type request struct {
	pagechat.Page

	answers []pagechat.Answer // in the newest message
	last    string            // role of the newest message
}

// reader reads messages. It continues after an error, in order to report all of them.
type reader struct {
	request

	told  []string
	wrong []fault.Field
}

// read converts a request. Errors: Invalid with every invalid field.
func (in *ChatInput) read(agentID string) (*request, error) {
	p := &reader{request: request{Page: pagechat.Page{AgentID: agentID, ChatID: in.ID, Source: source}}}
	if message := session.CheckExternalID(in.ID); message != "" {
		p.refuse("id", message)
	}
	if in.System != nil {
		p.told = append(p.told, *in.System)
	}
	for i := range in.Messages {
		m := &in.Messages[i]
		at := "messages[" + strconv.Itoa(i) + "]"
		parts := make([]part, len(m.Parts))
		for j, raw := range m.Parts {
			if json.Unmarshal(raw, &parts[j]) != nil {
				p.refuse(at+".parts["+strconv.Itoa(j)+"]", "expected a part as the AI SDK sends it: an object with a type, and members of that type")
			}
		}
		switch p.last = m.Role; m.Role {
		case "system":
			for j := range parts {
				p.told = append(p.told, parts[j].Text)
			}
		case "user":
			p.user(at, m.ID, parts)
		case "assistant":
			p.answers = nil
			p.assistant(at, m.ID, parts)
		}
	}
	p.tools(in.Tools)
	p.Instructions = strings.TrimSpace(strings.Join(p.told, "\n\n"))
	p.wrong = append(p.wrong, pagechat.CheckInstructions(p.Instructions)...)
	if len(p.wrong) > 0 {
		return nil, fault.BadFields(p.wrong...)
	}
	return &p.request, nil
}

func (p *reader) refuse(field, message string) {
	p.wrong = append(p.wrong, fault.Field{Field: field, Message: message})
}

func (p *reader) user(at, id string, parts []part) {
	m := pagechat.Message{At: at, ID: id, Role: model.User}
	var texts []string
	files := false
	for i := range parts {
		switch q := &parts[i]; q.Type {
		case "text":
			texts = append(texts, q.Text)
			m.Parts = append(m.Parts, model.TextPart(q.Text))
		case "file":
			wire, ok := q.file()
			if !ok {
				p.refuse(at+".parts["+strconv.Itoa(i)+"]", "expected an image with an http, https or data URL, or another file with a data URL")
				continue
			}
			files = true
			m.Parts = append(m.Parts, wire)
		}
	}
	if m.Text = strings.Join(texts, "\n"); !files {
		m.Parts = nil
	}
	p.Messages = append(p.Messages, m)
}

// file returns a file as models read it.
func (p *part) file() (jsontext.Value, bool) {
	if strings.HasPrefix(p.MediaType, "image/") || p.MediaType == "image" {
		return pagechat.ImagePart(p.URL)
	}
	if !strings.HasPrefix(p.URL, "data:") {
		return nil, false
	}
	name := p.Filename
	if name == "" {
		name = "file"
	}
	file := map[string]string{"file_data": p.URL, "filename": name}
	b, err := json.Marshal(map[string]any{"type": "file", "file": file}, json.Deterministic(true))
	return b, err == nil // the message is recognized by its bytes
}

// assistant reads a message of the agent: what it said in each step, and the results of
// the page's tools, which were sent as turns of their own.
func (p *reader) assistant(at, id string, parts []part) {
	said := pagechat.Message{At: at, ID: id, Reply: id, Role: model.Assistant}
	now, some := said, false
	var results []pagechat.Message
	flush := func() {
		p.Messages = append(append(p.Messages, now), results...)
		now, results, some = said, nil, true
	}
	for i := range parts {
		q := &parts[i]
		name := q.tool()
		switch {
		case q.Type == "text" || q.Type == "step-start":
			if len(results) > 0 {
				flush()
			}
			now.Text += q.Text
		case name == "":
		case q.State == "approval-responded":
			if q.Approval.ID == "" || q.Approval.Approved == nil {
				p.refuse(at+".parts["+strconv.Itoa(i)+"].approval", "expected an id, and approved true or false; the approval is still open")
				continue
			}
			p.answers = append(p.answers, pagechat.Answer{ID: q.Approval.ID, Approved: *q.Approval.Approved, Reason: q.Approval.Reason})
		case name == run.AskUser:
			if text := q.answer(); q.State == "output-available" && text != "" {
				p.answers = append(p.answers, pagechat.Answer{ID: q.ToolCallID, Text: text})
			}
		case !q.ProviderExecuted:
			now.Calls = append(now.Calls, model.ToolCall{ID: q.ToolCallID, Name: name, Arguments: string(q.Input)})
			if text, ok := q.result(); ok {
				results = append(results, pagechat.Message{
					At: at + ".parts[" + strconv.Itoa(i) + "]", Role: model.Tool, CallID: q.ToolCallID, Text: text,
				})
			}
		}
	}
	if !some || now.Text != "" || len(now.Calls) > 0 {
		flush()
	}
}

// answer returns the answer to a question.
func (p *part) answer() (text string) {
	var answer struct {
		Answer string `json:"answer"`
	}
	if p.Output.Kind() == '{' && json.Unmarshal(p.Output, &answer) == nil {
		return strings.TrimSpace(answer.Answer)
	}
	_ = json.Unmarshal(p.Output, &text) // what is no text is no answer
	return strings.TrimSpace(text)
}

// result returns the result of a call, and reports whether there is one.
func (p *part) result() (text string, ok bool) {
	switch p.State {
	case "output-available":
		if p.Output.Kind() == '"' && json.Unmarshal(p.Output, &text) == nil {
			return text, true
		}
		return string(p.Output), true
	case "output-error":
		return "The call failed: " + p.ErrorText, true
	}
	return "", false
}

func (p *reader) tools(all schema.Object) {
	if len(all) == 0 {
		return
	}
	var tools map[string]struct {
		Description string         `json:"description"`
		InputSchema jsontext.Value `json:"inputSchema"`
	}
	if err := json.Unmarshal([]byte(all), &tools); err != nil {
		p.refuse("tools", "expected an object for each tool, with a description and an inputSchema")
		return
	}
	for name, t := range tools {
		p.Tools = append(p.Tools, run.CallerTool{Name: name, Description: t.Description, Parameters: t.InputSchema})
	}
	slices.SortFunc(p.Tools, func(a, b run.CallerTool) int { return strings.Compare(a.Name, b.Name) })
	p.wrong = append(p.wrong, pagechat.CheckTools(p.Tools)...)
}
