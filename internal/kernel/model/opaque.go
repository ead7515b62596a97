package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// MaxOpaque is how many bytes of opaque data one answer may come with.
const MaxOpaque = 1 << 20

// Opaque is what an endpoint returned beside an answer and must get back with it in
// later calls: reasoning content, signatures of thoughts, encrypted reasoning. Only the
// wire that made it can read it, and only the endpoint and the model that it comes from
// may get it. It is shown to no one.
//
// It is a string and not JSON so that messages and calls stay comparable.
type Opaque struct {
	Source string // Target.Source of the model that answered
	Data   string // of the message, in the wire's own form; that of calls stands with them
}

// Source identifies the endpoint and the model of opaque data.
func (t *Target) Source() string {
	h := sha256.New()
	for _, part := range []string{t.BaseURL, t.Model} {
		fmt.Fprintf(h, "%d %s ", len(part), part)
	}
	if t.Wire != "" && t.Wire != WireChat { // another form of the data
		fmt.Fprint(h, t.Wire)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// HasOpaque reports whether a message has opaque data, of itself or of a call.
func (m *Message) HasOpaque() bool { return m.Opaque.Source != "" }

// OpaqueSize returns the size of an answer's opaque data, in bytes.
func (r *Response) OpaqueSize() int {
	n := len(r.Opaque)
	for i := range r.ToolCalls {
		n += len(r.ToolCalls[i].Opaque)
	}
	return n
}

// WithoutForeign returns the messages that a target may get: without the opaque data of
// other endpoints and models. The result may be messages itself, which it does not change.
func WithoutForeign(messages []Message, t *Target) []Message {
	source, copied := "", false
	for i := range messages {
		if !messages[i].HasOpaque() {
			continue
		}
		if source == "" {
			source = t.Source()
		}
		if messages[i].Opaque.Source == source {
			continue
		}
		if !copied {
			messages, copied = append([]Message(nil), messages...), true
		}
		m := &messages[i]
		m.Opaque = Opaque{}
		m.ToolCalls = append([]ToolCall(nil), m.ToolCalls...)
		for j := range m.ToolCalls {
			m.ToolCalls[j].Opaque = ""
		}
	}
	return messages
}
