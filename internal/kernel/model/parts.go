package model

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Plain is what of a message is text.
func Plain(m *Message) string {
	if m.Parts == nil {
		return m.Text
	}
	var b strings.Builder
	for _, part := range m.Parts {
		text, _ := partText(part)
		b.WriteString(text)
	}
	return b.String()
}

// Attachments counts the parts of a message that are no text: images and the
// like.
func Attachments(m *Message) (n int) {
	for _, part := range m.Parts {
		if _, ok := partText(part); !ok {
			n++
		}
	}
	return n
}

// TextPart is a content part of a text.
func TextPart(text string) jsontext.Value {
	b, _ := jsontext.AppendQuote([]byte(`{"type":"text","text":`), text) // what is no UTF-8 is mended
	return append(b, '}')
}

// partText is the text of a content part; not ok for images and the like.
func partText(part jsontext.Value) (text string, ok bool) {
	var p struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(part, &p) != nil || p.Type != "text" && p.Type != "input_text" {
		return "", false
	}
	return p.Text, true
}
