package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

// part is a text, or a content part in the form of chat completions.
type part struct {
	text string
	raw  jsontext.Value
}

// result is the result of a tool call.
type result struct {
	id, text string
	media    []jsontext.Value // images and PDF
}

// messageBuilder builds the messages of an OpenAI-compatible conversation.
// Consecutive turns of one role become one, because the results of tools must follow
// the message that called them directly.
type messageBuilder struct {
	fieldErrors

	out     []model.Message
	role    model.Role
	parts   []part
	calls   []model.ToolCall
	results []result
	opaque  opaque // of an assistant's turn
}

// addPrompt converts a prompt, the system's message first, and collects the invalid
// fields.
func (t *messageBuilder) addPrompt(p *Prompt) {
	t.out = make([]model.Message, 0, len(p.Messages)+1)
	if !absent(p.System) {
		t.role = model.System
		t.each(p.System, blockPath{message: -1, block: -1, inner: -1}, false, t.addBlock)
		t.endTurn()
	}
	for i := range p.Messages {
		m := &p.Messages[i]
		if role := model.Role(m.Role); role != t.role {
			t.endTurn()
			t.role = role
		}
		t.each(m.Content, blockPath{message: i, block: -1, inner: -1}, false, t.addBlock)
	}
	t.endTurn()
	if len(t.out) == 0 && len(t.fields) == 0 {
		t.add("messages", "no message has content")
	}
}

// addBlock adds a block to the turn. Other types are ignored: reasoning, and types of
// later versions of the API.
func (t *messageBuilder) addBlock(b block, at blockPath) {
	switch b.kind {
	case "text":
		if text := t.str(b.text, at, "text"); text != "" {
			t.parts = append(t.parts, part{text: text})
		}
	case "image":
		if t.role == model.User {
			if raw := t.image(&b, at); raw != nil {
				t.parts = append(t.parts, part{raw: raw})
			}
		}
	case "document":
		t.addDocument(&b, at)
	case "redacted_thinking":
		if t.role == model.Assistant && kind(b.data) == '"' {
			if o := openOpaque(unquote(b.data)); o.Source != "" {
				t.opaque = o
			}
		}
	case "tool_use":
		if t.role == model.Assistant {
			t.addToolUse(&b, at)
		}
	case "tool_result":
		if t.role == model.User {
			t.addToolResult(&b, at)
		}
	}
}

func (t *messageBuilder) addToolUse(b *block, at blockPath) {
	call := model.ToolCall{ID: t.str(b.id, at, "id"), Name: t.str(b.name, at, "name"), Arguments: "{}"}
	switch {
	case absent(b.input):
	case b.input[0] == '{':
		call.Arguments = string(b.input)
	default:
		t.add(at.field("input"), "expected an object")
	}
	t.calls = append(t.calls, call)
}

// errorPrefix marks the result of a tool that failed: OpenAI-compatible endpoints
// have no member for that.
const errorPrefix = "Error: "

func (t *messageBuilder) addToolResult(b *block, at blockPath) {
	r := result{id: t.str(b.toolUseID, at, "tool_use_id")}
	var texts []string
	if !absent(b.content) {
		t.each(b.content, at, true, func(b block, at blockPath) {
			switch b.kind {
			case "text":
				if text := t.str(b.text, at, "text"); text != "" {
					texts = append(texts, text)
				}
			case "image":
				if raw := t.image(&b, at); raw != nil {
					r.media = append(r.media, raw)
				}
			case "document":
				for _, p := range t.document(&b, at) {
					switch {
					case p.text != "":
						texts = append(texts, p.text)
					default:
						r.media = append(r.media, p.raw)
					}
				}
			}
		})
	}
	if len(r.media) > 0 {
		texts = append(texts, "["+countMedia(r.media)+" of this result: see the message after the results of the tools]")
	}
	r.text = strings.Join(texts, paragraph)
	switch {
	case absent(b.isError), b.isError[0] == 'f':
	case b.isError[0] == 't':
		r.text = errorPrefix + r.text
	default:
		t.add(at.field("is_error"), "expected true or false")
	}
	t.results = append(t.results, r)
}

func countMedia(media []jsontext.Value) string {
	one := "image"
	if slices.ContainsFunc(media, func(raw jsontext.Value) bool {
		return strings.HasPrefix(string(raw[:min(len(raw), len(fileHead))]), fileHead)
	}) {
		one = "file"
	}
	if len(media) == 1 {
		return "1 " + one
	}
	return strconv.Itoa(len(media)) + " " + one + "s"
}

// paragraph separates texts of different blocks.
const paragraph = "\n\n"

// endTurn adds the messages of the turn.
func (t *messageBuilder) endTurn() {
	switch t.role {
	case model.Assistant:
		if len(t.parts) > 0 || len(t.calls) > 0 {
			m := model.Message{Role: model.Assistant, Text: joinText(t.parts), ToolCalls: t.calls}
			t.opaque.restore(&m)
			t.out = append(t.out, m)
			t.calls = nil
		}
		t.opaque = opaque{}
	default:
		if len(t.results) > 0 {
			t.parts = append(t.addToolMessages(), t.parts...)
			t.results = t.results[:0]
		}
		if len(t.parts) == 0 {
			break
		}
		m := model.Message{Role: t.role}
		if slices.ContainsFunc(t.parts, func(p part) bool { return p.raw != nil }) {
			m.Parts = contentParts(t.parts)
		} else {
			m.Text = joinText(t.parts)
		}
		t.out = append(t.out, m)
	}
	t.parts = t.parts[:0]
}

// addToolMessages adds the results of tools, as messages that answer the calls before
// them. It returns what becomes the user's message instead: images, which a tool's
// message cannot have, and results without a call, which endpoints reject.
func (t *messageBuilder) addToolMessages() (rest []part) {
	var pending []model.ToolCall
	if n := len(t.out); n > 0 {
		pending = slices.Clone(t.out[n-1].ToolCalls)
	}
	for _, r := range t.results {
		i := slices.IndexFunc(pending, func(c model.ToolCall) bool { return c.ID == r.id })
		if i >= 0 {
			t.out = append(t.out, model.Message{Role: model.Tool, Text: r.text, ToolCallID: r.id, Name: pending[i].Name})
			pending = slices.Delete(pending, i, i+1)
		} else {
			rest = append(rest, part{text: "[Result of the tool call " + r.id + "]\n" + r.text})
		}
		if len(r.media) == 0 {
			continue
		}
		rest = append(rest, part{text: "[" + countMedia(r.media) + " of the result of the tool call " + r.id + "]"})
		for _, raw := range r.media {
			rest = append(rest, part{raw: raw})
		}
	}
	return rest
}

func joinText(parts []part) string {
	if len(parts) == 1 {
		return parts[0].text
	}
	n := 0
	for i := range parts {
		n += len(parts[i].text) + len(paragraph)
	}
	var b strings.Builder
	b.Grow(n)
	for i := range parts {
		if i > 0 {
			b.WriteString(paragraph)
		}
		b.WriteString(parts[i].text)
	}
	return b.String()
}

// textHead is the beginning of every text part that contentParts makes.
const textHead = `{"type":"text","text":`

func contentParts(parts []part) []jsontext.Value {
	out := make([]jsontext.Value, len(parts))
	for i, p := range parts {
		if out[i] = p.raw; p.raw == nil {
			raw := append(make([]byte, 0, len(textHead)+len(p.text)+len(p.text)/16+8), textHead...)
			out[i] = append(appendString(raw, p.text), '}')
		}
	}
	return out
}

// appendString quotes s. Invalid UTF-8 becomes U+FFFD; the ignored error only
// reports that.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}
