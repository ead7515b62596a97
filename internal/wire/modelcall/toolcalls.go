package modelcall

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/kernel/model"
)

// ErrTooManyCalls means that one answer calls more than MaxCalls tools.
var ErrTooManyCalls = errors.New("modelcall: the answer calls more than 128 tools")

// MaxCalls is how many tools one answer may call.
const MaxCalls = 128

// CallPiece is a piece of a tool call. It belongs to the call with its index; without an
// index, to the call with its id, or to the last call.
type CallPiece struct {
	Index     *int
	ID, Name  string
	Arguments string
	Opaque    string // what the endpoint wants back with the call; replaces what came before
}

// callAssembler assembles tool calls from their pieces.
type callAssembler struct {
	all    []*pendingCall
	seen   map[string]bool // ids in the answer
	at     int             // the call that is being emitted
	shown  int             // calls emitted before it
	passed int             // bytes of its arguments that were emitted
}

type pendingCall struct {
	index        int    // of the endpoint; -1: none
	id, name     string // of the endpoint
	publicID     string // the id in the answer; "" until it is assigned
	opaque       string // see CallPiece
	sealed       bool   // emitted completely: further pieces are dropped
	arguments    strings.Builder
	validatedLen int // length of the arguments when last found incomplete
	validations  int
}

// add adds a piece. It begins a new call if there is none for it, or if it has a name and
// another id, because some endpoints give every call the index 0.
func (c *callAssembler) add(piece *CallPiece) error {
	id, name := piece.ID, piece.Name
	call := c.find(piece.Index, id, name)
	if call == nil {
		if len(c.all) == MaxCalls {
			return ErrTooManyCalls
		}
		call = &pendingCall{index: -1}
		if piece.Index != nil {
			call.index = *piece.Index
		}
		c.all = append(c.all, call)
	}
	if piece.Opaque != "" {
		call.opaque = strings.ToValidUTF8(piece.Opaque, "\uFFFD")
	}
	if call.sealed {
		return nil
	}
	if call.id == "" {
		call.id = id
	}
	if name != call.name && call.publicID == "" { // some repeat it with every piece
		call.name += name
	}
	call.arguments.WriteString(piece.Arguments)
	return nil
}

func (c *callAssembler) find(index *int, id, name string) *pendingCall {
	for _, call := range slices.Backward(c.all) {
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

// emit emits the calls one after the other, each piece by piece. A call is complete
// when the answer is (all), or when another has begun and its arguments are valid;
// until then the others wait, because endpoints may interleave the pieces of several.
// A call begins with the first piece of its arguments: until then its name may grow.
func (c *callAssembler) emit(give func(model.Delta), all bool) {
	for ; c.at < len(c.all); c.at++ {
		call := c.all[c.at]
		arguments := call.arguments.String()
		over := all || c.at < len(c.all)-1 && call.complete(arguments)
		switch {
		case call.name == "" && all:
			continue // a call without a name is dropped
		case call.name == "", arguments == "" && !over:
			return
		case arguments == "":
			arguments = noArguments
		}
		d := model.CallDelta{Index: c.shown, Arguments: arguments[c.passed:]}
		if call.publicID == "" {
			d.ID, d.Name = c.name(call), call.name
		}
		if d.ID != "" || d.Arguments != "" {
			give(model.Delta{Call: d})
		}
		if c.passed = len(arguments); !over {
			return
		}
		call.sealed = true
		c.shown++
		c.passed = 0
	}
}

// maxValidations bounds how often a call's arguments are validated, because an endpoint
// that interleaves pieces could cause that after every one.
const maxValidations = 32

// complete reports whether a call's arguments are valid JSON.
func (p *pendingCall) complete(arguments string) bool {
	if p.validatedLen == len(arguments) || p.validations == maxValidations {
		return false
	}
	p.validatedLen = len(arguments)
	p.validations++
	return jsontext.Value(arguments).IsValid()
}

// noArguments are the arguments of a call without any.
const noArguments = "{}"

// name assigns and returns a call's id in the answer: the endpoint's, or a new one if
// that is missing or not unique.
func (c *callAssembler) name(call *pendingCall) string {
	if call.publicID == "" {
		if call.publicID = call.id; call.id == "" || c.seen[call.id] {
			call.publicID = "call_" + ident.New()
		}
		if c.seen == nil {
			c.seen = map[string]bool{}
		}
		c.seen[call.publicID] = true
	}
	return call.publicID
}

// finished returns the calls, each with a unique id. Calls without a name are dropped.
func (c *callAssembler) finished() (done []model.ToolCall) {
	for _, call := range c.all {
		if call.name == "" {
			continue
		}
		arguments := call.arguments.String()
		if arguments == "" {
			arguments = noArguments
		}
		done = append(done, model.ToolCall{ID: c.name(call), Name: call.name, Arguments: arguments, Opaque: call.opaque})
	}
	return done
}
