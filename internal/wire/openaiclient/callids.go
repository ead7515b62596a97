package openaiclient

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"

	"agentd/internal/wire/modelcall"
)

// fillCallIDs completes the tool calls of a chunk or an answer that a client could not
// assemble or answer otherwise: each call gets an id where it begins and, if it is
// streamed, an index. Everything else is unchanged.
func (r *relay) fillCallIDs(data []byte, c *completion) ([]byte, error) {
	if !r.lacksCallIDs(c) {
		return data, nil
	}
	var top, choice, msg map[string]jsontext.Value
	var choices, calls []jsontext.Value
	member := "message"
	if r.f.Stream {
		member = "delta"
	}
	if json.Unmarshal(data, &top, modelcall.Lenient) != nil || json.Unmarshal(top["choices"], &choices, modelcall.Lenient) != nil ||
		json.Unmarshal(choices[0], &choice, modelcall.Lenient) != nil || json.Unmarshal(choice[member], &msg, modelcall.Lenient) != nil ||
		json.Unmarshal(msg["tool_calls"], &calls, modelcall.Lenient) != nil {
		return nil, modelcall.ErrGarbage
	}
	for i, raw := range calls {
		var call map[string]jsontext.Value
		if json.Unmarshal(raw, &call, modelcall.Lenient) != nil || call == nil {
			return nil, modelcall.ErrGarbage
		}
		r.fillCall(call)
		calls[i] = modelcall.MustMarshal(call)
	}
	msg["tool_calls"] = modelcall.MustMarshal(calls)
	choice[member] = modelcall.MustMarshal(msg)
	choices[0] = modelcall.MustMarshal(choice)
	top["choices"] = modelcall.MustMarshal(choices)
	return modelcall.MustMarshal(top), nil
}

// lacksCallIDs reports whether a call of the first choice has no id where it begins, or
// no index. Other choices were not requested.
func (r *relay) lacksCallIDs(c *completion) bool {
	if len(c.Choices) == 0 {
		return false
	}
	if !r.f.Stream {
		return slices.ContainsFunc(c.Choices[0].Message.ToolCalls, func(call toolCall) bool { return call.ID == "" })
	}
	found := false
	for i := range c.Choices[0].Delta.ToolCalls {
		call := &c.Choices[0].Delta.ToolCalls[i]
		if call.Index == nil || !r.seen(*call.Index) && call.ID == "" {
			found = true
			continue
		}
		r.markSeen(*call.Index)
	}
	return found
}

// fillCall adds a missing id or index to a call.
func (r *relay) fillCall(call map[string]jsontext.Value) {
	id := []byte(`"call_` + ident.New() + `"`)
	known := call["id"].Kind() == '"' && len(call["id"]) > 2
	if !r.f.Stream {
		if !known {
			call["id"] = id
		}
		return
	}
	var index int
	if json.Unmarshal(call["index"], &index) != nil || call["index"].Kind() != '0' {
		index = len(r.idSeen)
		if !known && index > 0 { // it continues the last call
			index--
		}
		call["index"] = modelcall.MustMarshal(index)
	}
	if !r.seen(index) && !known {
		call["id"] = id
	}
	r.markSeen(index)
}

func (r *relay) seen(index int) bool {
	return index >= 0 && index < len(r.idSeen) && r.idSeen[index]
}

func (r *relay) markSeen(index int) {
	if index < 0 || index >= modelcall.MaxCalls {
		return
	}
	for len(r.idSeen) <= index {
		r.idSeen = append(r.idSeen, false)
	}
	r.idSeen[index] = true
}

// parse decodes a chunk or an answer. An error in place of one is returned as an
// *endpointError.
func parse(data []byte) (*completion, error) {
	var c completion
	if err := json.Unmarshal(data, &c, modelcall.Lenient); err != nil {
		return nil, modelcall.ErrGarbage
	}
	if c.Error != nil && c.Error.Kind() != 'n' || c.Object == "error" {
		return nil, modelcall.ParseError(data)
	}
	return &c, nil
}

func isBlank(data []byte) bool { return len(bytes.TrimSpace(data)) == 0 }
