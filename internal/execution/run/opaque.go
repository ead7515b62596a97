package run

import "agentd/internal/kernel/model"

// StepOpaque is what the endpoint of a model's step wants back with its message; see
// model.Opaque. It is stored with the step and shown to no one.
type StepOpaque struct {
	Source  string            `json:"source"`
	Message string            `json:"message,omitzero"`
	Calls   map[string]string `json:"calls,omitzero"` // by tool_call_id
}

// OpaqueOf returns what a model's answer must get back; nil if nothing.
func OpaqueOf(r *model.Response, from *model.Target) *StepOpaque {
	if r.OpaqueSize() == 0 {
		return nil
	}
	o := &StepOpaque{Source: from.Source(), Message: r.Opaque}
	for _, c := range r.ToolCalls {
		if c.Opaque == "" {
			continue
		}
		if o.Calls == nil {
			o.Calls = map[string]string{}
		}
		o.Calls[c.ID] = c.Opaque
	}
	return o
}

// Restore sets the opaque data of the message that the step is in a conversation. A nil
// receiver has none. It changes the calls of the message.
func (o *StepOpaque) Restore(m *model.Message) {
	if o == nil {
		return
	}
	m.Opaque = model.Opaque{Source: o.Source, Data: o.Message}
	for i := range m.ToolCalls {
		m.ToolCalls[i].Opaque = o.Calls[m.ToolCalls[i].ID]
	}
}
