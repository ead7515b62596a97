package openai

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// maxItems is the maximum number of items in an input.
const maxItems = 10_000

// inputItem is an item of a request's input, with the members of all types.
type inputItem struct {
	Type      string         `json:"type"`
	ID        string         `json:"id"`
	Role      string         `json:"role"`
	Content   jsontext.Value `json:"content"`
	CallID    string         `json:"call_id"`
	Name      string         `json:"name"`
	Arguments string         `json:"arguments"`
	Output    jsontext.Value `json:"output"`
}

// Types of items.
const (
	itemMessage   = "message"
	itemCall      = "function_call"
	itemOutput    = "function_call_output"
	itemReference = "item_reference"
	itemReasoning = "reasoning"
)

// ignoredItems record what the endpoint's own tools did, which agents do not have.
var ignoredItems = map[string]bool{
	itemReasoning: true, "compaction": true, "web_search_call": true, "file_search_call": true, "code_interpreter_call": true,
	"image_generation_call": true, "mcp_call": true, "mcp_list_tools": true, "mcp_approval_request": true, "mcp_approval_response": true,
}

// inputReader reads the items of an input as turns of a conversation. It continues
// after an error, in order to report all of them.
type inputReader struct {
	lookup       func(id string) (OutputItem, bool) // of earlier items
	turns        []inputTurn
	slots        []*callSlot // every call so far
	instructions []string    // of the roles system and developer
	parts        int
	errors       []fault.Field
}

// inputTurn is a message; if it has calls, with their results.
type inputTurn struct {
	message model.Message
	slots   []*callSlot
}

// callSlot is a call and, once it was read, its result.
type callSlot struct {
	id     string
	at     string // path of the item; "": a call of the previous response
	result *model.Message
	media  []jsontext.Value // parts of the result other than text
}

func (p *inputReader) addError(field, message string) {
	p.errors = append(p.errors, fault.Field{Field: field, Message: message})
}

// addOpenCalls adds the calls that the previous response left to the client.
func (p *inputReader) addOpenCalls(open []model.ToolCall) {
	if len(open) == 0 {
		return
	}
	var t inputTurn
	for _, c := range open {
		t.slots = append(t.slots, &callSlot{id: c.ID})
	}
	p.slots = append(p.slots, t.slots...)
	p.turns = append(p.turns, t)
}

// read reads an input.
func (p *inputReader) read(v jsontext.Value) {
	switch v.Kind() {
	case '"':
		p.addMessage(model.User, unquote(v), nil)
		return
	case '[':
	default:
		p.addError("input", "expected a string or an array of input items")
		return
	}
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	_, _ = dec.ReadToken() // valid JSON
	for i := 0; dec.PeekKind() != ']'; i++ {
		item, err := dec.ReadValue()
		if err != nil {
			p.addError("input", "expected a string or an array of input items")
			return
		}
		if i == maxItems {
			p.addError("input", "expected at most 10000 items")
			return
		}
		p.readItem("input["+strconv.Itoa(i)+"]", item)
	}
}

func (p *inputReader) readItem(at string, v jsontext.Value) {
	var item inputItem
	if v.Kind() != '{' || json.Unmarshal(v, &item) != nil {
		p.addError(at, "expected an input item: an object whose type, role, id, call_id, name and arguments are strings")
		return
	}
	switch {
	case item.Type == itemMessage, item.Type == "" && item.Role != "":
		p.readMessage(at, &item)
	case item.Type == itemCall:
		p.addCall(at, item.CallID, item.Name, item.Arguments)
	case item.Type == itemOutput:
		p.readOutput(at, &item)
	case item.Type == itemReference, item.Type == "" && item.ID != "":
		p.addReference(at, item.ID)
	case ignoredItems[item.Type]:
	case item.Type == "":
		p.addError(at+".type", "required, unless the item is a message, which has a role")
	default:
		p.addError(at+".type", "items of type "+item.Type+" are not supported: expected message, function_call, function_call_output, "+
			"reasoning or item_reference")
	}
}

func (p *inputReader) readMessage(at string, item *inputItem) {
	text, parts, ok := p.readContent(at+".content", item.Content)
	if !ok {
		return
	}
	switch item.Role {
	case "user":
		p.addMessage(model.User, text, parts)
	case "assistant":
		p.addMessage(model.Assistant, text, parts)
	case "system", "developer":
		if parts != nil {
			p.addError(at+".content", "only parts with text are allowed in a message of role "+item.Role)
		} else if text != "" {
			p.instructions = append(p.instructions, text)
		}
	default:
		p.addError(at+".role", "expected user, assistant, system or developer")
	}
}

// addMessage adds a message, unless it is empty.
func (p *inputReader) addMessage(role model.Role, text string, parts []jsontext.Value) {
	if text != "" || len(parts) > 0 {
		p.turns = append(p.turns, inputTurn{message: model.Message{Role: role, Text: text, Parts: parts}})
	}
}

// addCall adds a call to its turn: consecutive calls were made together.
func (p *inputReader) addCall(at, id, name, arguments string) {
	if id == "" {
		p.addError(at+".call_id", "required for a function_call")
	}
	if name == "" {
		p.addError(at+".name", "required for a function_call")
	}
	var t *inputTurn
	if n := len(p.turns); n > 0 && p.turns[n-1].message.Role == model.Assistant && !p.turns[n-1].answered() {
		t = &p.turns[n-1]
	} else {
		p.turns = append(p.turns, inputTurn{message: model.Message{Role: model.Assistant}})
		t = &p.turns[n]
	}
	slot := &callSlot{id: id, at: at}
	t.message.ToolCalls = append(t.message.ToolCalls, model.ToolCall{ID: id, Name: name, Arguments: arguments})
	t.slots, p.slots = append(t.slots, slot), append(p.slots, slot)
}

// answered reports whether a result of the turn's calls was read.
func (t *inputTurn) answered() bool {
	for _, s := range t.slots {
		if s.result != nil {
			return true
		}
	}
	return false
}

// readOutput adds a result to its call: the last one with its id and without a
// result.
func (p *inputReader) readOutput(at string, item *inputItem) {
	text, parts, ok := p.readContent(at+".output", item.Output)
	switch {
	case item.CallID == "":
		p.addError(at+".call_id", "required for a function_call_output: the call_id of the function_call that it answers")
		return
	case len(item.Output) == 0 || item.Output.Kind() == 'n':
		p.addError(at+".output", "required for a function_call_output")
		return
	case !ok:
		return
	}
	for _, s := range slices.Backward(p.slots) {
		if s.id == item.CallID && s.result == nil {
			s.result = &model.Message{Role: model.Tool, Text: text, ToolCallID: s.id}
			for _, part := range parts {
				if partType(part) != "text" { // texts are in Text
					s.media = append(s.media, part)
				}
			}
			return
		}
	}
	p.addError(at+".call_id", "no function_call with this call_id and without an output precedes it in the input or ends the "+
		"previous response")
}

// addReference adds an item of an earlier response by its id.
func (p *inputReader) addReference(at, id string) {
	if strings.HasPrefix(id, reasoningPrefix) {
		return
	}
	item, found := p.lookup(id)
	switch {
	case !found:
		p.addError(at+".id", "no such item exists in an ended response of this company")
	case item.Type == itemMessage:
		p.addMessage(model.Assistant, item.text(), nil)
	case item.Type == itemCall:
		p.addCall(at, item.CallID, item.Name, ptr.Value(item.Arguments))
	}
}

// runInput returns the run's input: the last message, if it is the user's, becomes
// the run's message, the others its history. Images of a result follow it as a
// message of the user, because models accept them only there.
func (p *inputReader) runInput() (in run.Input) {
	var all []model.Message
	for i := range p.turns {
		t := &p.turns[i]
		if t.message.Role != "" {
			all = append(all, t.message)
		}
		var media []jsontext.Value
		for _, s := range t.slots {
			switch {
			case s.result != nil:
				all = append(all, *s.result)
				if len(s.media) > 0 {
					media = append(append(media, model.TextPart("Attachments of the result of the call "+s.id+":")), s.media...)
				}
			case s.at != "":
				p.addError(s.at+".call_id", "the input has no function_call_output for this call")
			}
		}
		if media != nil {
			all = append(all, model.Message{Role: model.User, Parts: media})
		}
	}
	if n := len(all); n > 0 && all[n-1].Role == model.User {
		in.Message, in.Parts = all[n-1].Text, all[n-1].Parts
		all = all[:n-1]
	}
	if len(all) > 0 {
		in.History = all
	}
	return in
}
