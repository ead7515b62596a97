package modelwire

import (
	"errors"
	"slices"
	"strings"

	"agentd/internal/ident"
	"agentd/internal/model"
)

// errTooManyCalls bounds what one answer may ask for at once.
var errTooManyCalls = errors.New("modelwire: the answer calls more than 128 tools")

const maxCalls = 128

// calls puts tool calls together from their pieces.
type calls []*pendingCall

type pendingCall struct {
	index     int // as the endpoint counts; -1: it does not
	id, name  string
	arguments strings.Builder
}

// add takes in a piece. A piece belongs to the call with its index; without an
// index, to the call with its id, or to the last one. It begins a new call
// where there is none, and where it has a name and another id: some endpoints
// count every call as the first.
func (c *calls) add(piece *toolCall) error {
	id, name := string(piece.ID), string(piece.Function.Name)
	call := c.find(piece.Index, id, name)
	if call == nil {
		if len(*c) == maxCalls {
			return errTooManyCalls
		}
		call = &pendingCall{index: -1}
		if piece.Index != nil {
			call.index = *piece.Index
		}
		*c = append(*c, call)
	}
	if call.id == "" {
		call.id = id
	}
	if name != call.name { // some repeat it with every piece
		call.name += name
	}
	call.arguments.WriteString(string(piece.Function.Arguments))
	return nil
}

func (c *calls) find(index *int, id, name string) *pendingCall {
	for _, call := range slices.Backward(*c) {
		switch {
		case index != nil:
			if call.index == *index {
				if id != "" && call.id != "" && id != call.id && name != "" {
					return nil
				}
				return call
			}
		case id != "":
			if call.id == id {
				return call
			}
		case name == "":
			return call
		}
	}
	return nil
}

// finished gives the calls, each with an id of its own. Calls without a name
// cannot be made and are dropped.
func (c calls) finished() []model.ToolCall {
	if len(c) == 0 {
		return nil
	}
	seen := make(map[string]bool, len(c))
	var done []model.ToolCall
	for _, call := range c {
		if call.name == "" {
			continue
		}
		if call.id == "" || seen[call.id] {
			call.id = "call_" + ident.New()
		}
		seen[call.id] = true
		arguments := call.arguments.String()
		if arguments == "" {
			arguments = "{}"
		}
		done = append(done, model.ToolCall{ID: call.id, Name: call.name, Arguments: arguments})
	}
	return done
}
