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

// maxItems is how many items an input has at most.
const maxItems = 10_000

// inputItem is one of a request's input, with the members of all types.
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

// What an item is. Those that only tell what tools of the endpoint itself did,
// which agents have not, are left out.
const (
	itemMessage   = "message"
	itemCall      = "function_call"
	itemOutput    = "function_call_output"
	itemReference = "item_reference"
	itemReasoning = "reasoning"
)

var ignoredItems = map[string]bool{
	itemReasoning: true, "compaction": true, "web_search_call": true, "file_search_call": true, "code_interpreter_call": true,
	"image_generation_call": true, "mcp_call": true, "mcp_list_tools": true, "mcp_approval_request": true, "mcp_approval_response": true,
}

// inputReader reads the items of an input as turns of a conversation. It goes
// on after a fault, to tell of all of them.
type inputReader struct {
	lookup       func(id string) (OutputItem, bool) // earlier items
	turns        []inputTurn
	slots        []*callSlot // every call so far
	instructions []string    // what the caller instructs within the input
	parts        int
	errors       []fault.Field
}

// inputTurn is a message, and after one with calls their results.
type inputTurn struct {
	message model.Message
	slots   []*callSlot
}

// callSlot is a call, and its result once that was read.
type callSlot struct {
	id     string
	at     string // the item; "": it is of the response before
	result *model.Message
	media  []jsontext.Value // parts of the result that are no text
}

func (p *inputReader) addError(field, complaint string) {
	p.errors = append(p.errors, fault.Field{Field: field, Message: complaint})
}

// addOpenCalls notes the calls that the response before leaves to the caller.
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
	_, _ = dec.ReadToken() // it was checked
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
		p.addError(at+".type", "there are no items of type "+item.Type+" here: expected message, function_call, function_call_output, reasoning or item_reference")
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
			p.addError(at+".content", "instructions are text: only parts with text can be in a message of role "+item.Role)
		} else if text != "" {
			p.instructions = append(p.instructions, text)
		}
	default:
		p.addError(at+".role", "expected user, assistant, system or developer")
	}
}

// addMessage adds a message. One that says nothing is none.
func (p *inputReader) addMessage(role model.Role, text string, parts []jsontext.Value) {
	if text != "" || len(parts) > 0 {
		p.turns = append(p.turns, inputTurn{message: model.Message{Role: role, Text: text, Parts: parts}})
	}
}

// addCall adds a call to the turn that the model spoke it in: calls that come
// right after each other were made together.
func (p *inputReader) addCall(at, id, name, arguments string) {
	if id == "" {
		p.addError(at+".call_id", "required of a function_call")
	}
	if name == "" {
		p.addError(at+".name", "required of a function_call")
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

// answered says whether a result of the turn's calls was read.
func (t *inputTurn) answered() bool {
	for _, s := range t.slots {
		if s.result != nil {
			return true
		}
	}
	return false
}

// readOutput adds a result to its call: the last one of that id that has none.
func (p *inputReader) readOutput(at string, item *inputItem) {
	text, parts, ok := p.readContent(at+".output", item.Output)
	switch {
	case item.CallID == "":
		p.addError(at+".call_id", "required of a function_call_output: the call_id of the function_call that it answers")
		return
	case len(item.Output) == 0 || item.Output.Kind() == 'n':
		p.addError(at+".output", "required of a function_call_output")
		return
	case !ok:
		return
	}
	for _, s := range slices.Backward(p.slots) {
		if s.id == item.CallID && s.result == nil {
			s.result = &model.Message{Role: model.Tool, Text: text, ToolCallID: s.id}
			for _, part := range parts {
				if partType(part) != "text" { // which Text has
					s.media = append(s.media, part)
				}
			}
			return
		}
	}
	p.addError(at+".call_id", "there is no function_call with this call_id, and without an output, before it in the input or at the end of the previous response")
}

// addReference adds an item of an earlier response by its id.
func (p *inputReader) addReference(at, id string) {
	if strings.HasPrefix(id, reasoningPrefix) {
		return
	}
	item, there := p.lookup(id)
	switch {
	case !there:
		p.addError(at+".id", "there is no such item in a response of this company that has ended")
	case item.Type == itemMessage:
		p.addMessage(model.Assistant, item.text(), nil)
	case item.Type == itemCall:
		p.addCall(at, item.CallID, item.Name, ptr.Value(item.Arguments))
	}
}

// runInput gives what was read as a run's: the last message, if it is the user's,
// is the run's, and what comes before it is history. Pictures that a result
// has follow it as a message, as models take them in one only.
func (p *inputReader) runInput() (in run.Input) {
	var all []model.Message
	for i := range p.turns {
		t := &p.turns[i]
		if t.message.Role != "" {
			all = append(all, t.message)
		}
		var pictures []jsontext.Value
		for _, s := range t.slots {
			switch {
			case s.result != nil:
				all = append(all, *s.result)
				if len(s.media) > 0 {
					pictures = append(append(pictures, model.TextPart("What the call "+s.id+" gave beside its text:")), s.media...)
				}
			case s.at != "":
				p.addError(s.at+".call_id", "there is no function_call_output for this call in the input")
			}
		}
		if pictures != nil {
			all = append(all, model.Message{Role: model.User, Parts: pictures})
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
