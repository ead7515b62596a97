package openai

import (
	"bytes"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/model"
)

// turn is a message as the model gets it.
func (m *Message) turn(text string, parts []jsontext.Value) model.Message {
	t := model.Message{Role: model.Role(m.Role), Text: text, Parts: parts, Name: deref(m.Name), ToolCallID: deref(m.ToolCallID)}
	for _, c := range m.ToolCalls {
		t.ToolCalls = append(t.ToolCalls, model.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return t
}

var (
	errContent = errors.New("expected a string, an array of content parts, or null")
	errPart    = errors.New("expected every content part to be an object with a type, and a text where the type is text")
	errParts   = errors.New("expected at most 1000 content parts in a message, and 10000 in all")
)

// What a conversation has at most, beside its bytes: each part costs memory of
// its own.
const (
	maxParts    = 1000
	maxAllParts = 10_000
)

// content reads a message's content. Parts that are all text become one text;
// otherwise the parts are passed on to the model as they came.
func content(v jsontext.Value) (text string, parts []jsontext.Value, err error) {
	switch v.Kind() {
	case 0, 'n':
		return "", nil, nil
	case '"':
		return unquote(v), nil, nil
	case '[':
	default:
		return "", nil, errContent
	}
	if parts, err = elements(v); err != nil {
		return "", nil, err
	}
	var texts []string
	for _, p := range parts {
		var part struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if p.Kind() != '{' || json.Unmarshal(p, &part) != nil || part.Type == "" {
			return "", nil, errPart
		}
		if part.Type == "text" || part.Type == "input_text" {
			texts = append(texts, part.Text)
		}
	}
	text = strings.Join(texts, "\n")
	if len(texts) == len(parts) {
		return text, nil, nil
	}
	return text, parts, nil
}

// elements gives the parts of a content, and no more than there may be.
func elements(v jsontext.Value) (parts []jsontext.Value, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	if _, err := dec.ReadToken(); err != nil {
		return nil, errContent
	}
	for dec.PeekKind() != ']' {
		part, err := dec.ReadValue()
		switch {
		case err != nil:
			return nil, errContent
		case len(parts) == maxParts:
			return nil, errParts
		}
		parts = append(parts, part.Clone())
	}
	return parts, nil
}

// unquote gives the text of a valid JSON string.
func unquote(v jsontext.Value) string {
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, v) // it was checked
	return string(text)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
