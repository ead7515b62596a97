package model

import (
	"bytes"
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Plain returns the text of a message.
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

// Attachments counts the parts of a message that are not text: images and the
// like.
func Attachments(m *Message) (n int) {
	for _, part := range m.Parts {
		if _, ok := partText(part); !ok {
			n++
		}
	}
	return n
}

// TextPart returns a content part with a text.
func TextPart(text string) jsontext.Value {
	b, _ := jsontext.AppendQuote([]byte(`{"type":"text","text":`), text) // invalid UTF-8 is replaced
	return append(b, '}')
}

// IsText reports whether a content part is a text: not an image, a file and the like.
func IsText(part jsontext.Value) bool {
	_, ok := partText(part)
	return ok
}

// partText returns the text of a content part; not ok for images and the like.
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

// isTextFile reports whether a content part is a file of text, by the beginning of it.
func isTextFile(part jsontext.Value) bool {
	return bytes.Contains(part[:min(len(part), 1024)], []byte(`"data:text/`))
}

// TextFile returns the text of a content part that is a file of text, with its name; not ok
// for others.
func TextFile(part jsontext.Value) (text string, ok bool) {
	if !isTextFile(part) {
		return "", false
	}
	var p struct {
		Type string `json:"type"`
		File struct {
			Name string `json:"filename"`
			Data string `json:"file_data"`
		} `json:"file"`
	}
	if json.Unmarshal(part, &p, jsontext.AllowInvalidUTF8(true)) != nil || p.Type != "file" || !strings.HasPrefix(p.File.Data, "data:text/") {
		return "", false
	}
	_, data, _ := strings.Cut(p.File.Data, ",")
	content, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return "", false
	}
	return strings.TrimPrefix(p.File.Name+"\n\n", "\n\n") + string(content), true
}
