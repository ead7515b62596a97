package openaiclient

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/kernel/model"
)

// errTooManyCalls bounds what one answer may ask for at once.
var errTooManyCalls = errors.New("modelwire: the answer calls more than 128 tools")

const maxCalls = 128

// callAssembler puts tool calls together from their pieces.
type callAssembler struct {
	all    []*pendingCall
	seen   map[string]bool // ids that were given out
	at     int             // which of them is shown now, piece by piece
	shown  int             // how many were shown before it
	passed int             // bytes of its arguments that were shown
}

type pendingCall struct {
	index        int    // as the endpoint counts; -1: it does not
	id, name     string // as the endpoint says
	publicID     string // the id that it has in the answer; "": none yet
	sealed       bool   // it was shown as a whole, and takes no more
	arguments    strings.Builder
	validatedLen int // how long they were when they were last found not to be whole
	validations  int
}

// add takes in a piece. A piece belongs to the call with its index; without an
// index, to the call with its id, or to the last one. It begins a new call
// where there is none, and where it has a name and another id: some endpoints
// count every call as the first.
func (c *callAssembler) add(piece *toolCall) error {
	id, name := string(piece.ID), string(piece.Function.Name)
	call := c.find(piece.Index, id, name)
	if call == nil {
		if len(c.all) == maxCalls {
			return errTooManyCalls
		}
		call = &pendingCall{index: -1}
		if piece.Index != nil {
			call.index = *piece.Index
		}
		c.all = append(c.all, call)
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
	call.arguments.WriteString(string(piece.Function.Arguments))
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

// emit passes on what can be passed on: the calls one after the other, each as
// its pieces come. A call is over when the answer is (all), or when another has
// begun and its arguments are whole; until then the others wait, because
// endpoints may mix the pieces of several. A call begins with the first piece of
// its arguments: until then its name may grow.
func (c *callAssembler) emit(give func(model.Delta), all bool) {
	for ; c.at < len(c.all); c.at++ {
		call := c.all[c.at]
		arguments := call.arguments.String()
		over := all || c.at < len(c.all)-1 && call.complete(arguments)
		switch {
		case call.name == "" && all:
			continue // it cannot be made
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

// maxValidations is how often a call is looked at to see whether it is whole: an
// endpoint that mixes the pieces of calls could have us do that for ever.
const maxValidations = 32

// complete says whether nothing can be missing of a call's arguments.
func (p *pendingCall) complete(arguments string) bool {
	if p.validatedLen == len(arguments) || p.validations == maxValidations {
		return false
	}
	p.validatedLen = len(arguments)
	p.validations++
	return jsontext.Value(arguments).IsValid()
}

// noArguments are those of a call that has none.
const noArguments = "{}"

// name gives a call the id that it has in the answer: its own, or one that we
// make where it has none, or another call has the same.
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

// finished gives the calls, each with an id of its own. Calls without a name
// cannot be made and are dropped.
func (c *callAssembler) finished() (done []model.ToolCall) {
	for _, call := range c.all {
		if call.name == "" {
			continue
		}
		arguments := call.arguments.String()
		if arguments == "" {
			arguments = noArguments
		}
		done = append(done, model.ToolCall{ID: c.name(call), Name: call.name, Arguments: arguments})
	}
	return done
}
