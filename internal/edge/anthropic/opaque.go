package anthropic

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/model"
)

// opaque is what a model's endpoint wants back with an answer, as the client keeps it: in
// the data of a block redacted_thinking, which clients send back as it is. A client that
// changes it, or that makes up one, changes only what its own call sends.
type opaque struct {
	Source  string            `json:"source"`
	Message string            `json:"message,omitzero"`
	Calls   map[string]string `json:"calls,omitzero"` // by tool_use_id
}

// opaquePrefix marks the data of this server's own blocks.
const opaquePrefix = "agentd1."

// sealOpaque returns the data of the block for an answer; "" if its endpoint wants
// nothing back.
func sealOpaque(resp *model.Response, from *model.Target) string {
	if resp.OpaqueSize() == 0 {
		return ""
	}
	o := opaque{Source: from.Source(), Message: resp.Opaque, Calls: map[string]string{}}
	for _, c := range resp.ToolCalls {
		if c.Opaque != "" {
			o.Calls[c.ID] = c.Opaque
		}
	}
	b, err := json.Marshal(o, json.Deterministic(true))
	if err != nil { // only of text that is no UTF-8, which no wire keeps
		return ""
	}
	return opaquePrefix + base64.RawStdEncoding.EncodeToString(b)
}

// openOpaque is the inverse of sealOpaque. Other data is none: blocks of another server.
func openOpaque(data string) (o opaque) {
	encoded, ours := strings.CutPrefix(data, opaquePrefix)
	if !ours || len(encoded) > 2*model.MaxOpaque {
		return opaque{}
	}
	b, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(b, &o) != nil {
		return opaque{}
	}
	return o
}

// restore sets the opaque data of an assistant's message.
func (o *opaque) restore(m *model.Message) {
	if o.Source == "" {
		return
	}
	m.Opaque = model.Opaque{Source: o.Source, Data: o.Message}
	for i := range m.ToolCalls {
		m.ToolCalls[i].Opaque = o.Calls[m.ToolCalls[i].ID]
	}
}
