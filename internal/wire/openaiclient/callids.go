package openaiclient

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
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
	if json.Unmarshal(data, &top, lenient) != nil || json.Unmarshal(top["choices"], &choices, lenient) != nil ||
		json.Unmarshal(choices[0], &choice, lenient) != nil || json.Unmarshal(choice[member], &msg, lenient) != nil ||
		json.Unmarshal(msg["tool_calls"], &calls, lenient) != nil {
		return nil, errGarbage
	}
	for i, raw := range calls {
		var call map[string]jsontext.Value
		if json.Unmarshal(raw, &call, lenient) != nil || call == nil {
			return nil, errGarbage
		}
		r.fillCall(call)
		calls[i] = mustMarshal(call)
	}
	msg["tool_calls"] = mustMarshal(calls)
	choice[member] = mustMarshal(msg)
	choices[0] = mustMarshal(choice)
	top["choices"] = mustMarshal(choices)
	return mustMarshal(top), nil
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
		call["index"] = mustMarshal(index)
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
	if index < 0 || index >= maxCalls {
		return
	}
	for len(r.idSeen) <= index {
		r.idSeen = append(r.idSeen, false)
	}
	r.idSeen[index] = true
}

// mustMarshal encodes what was decoded before, which always succeeds.
func mustMarshal(v any) jsontext.Value {
	b, err := json.Marshal(v, lenient, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return b
}

// parse decodes a chunk or an answer. An error in place of one is returned as an
// *endpointError.
func parse(data []byte) (*completion, error) {
	var c completion
	if err := json.Unmarshal(data, &c, lenient); err != nil {
		return nil, errGarbage
	}
	if c.Error != nil && c.Error.Kind() != 'n' || c.Object == "error" {
		return nil, parseEndpointError(data)
	}
	return &c, nil
}

func isBlank(data []byte) bool { return len(bytes.TrimSpace(data)) == 0 }
