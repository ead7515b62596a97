package tool

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Repeats notices a model that makes one call for ever: same tool, same
// arguments, same result. It is the memory of one run. The zero value remembers
// nothing, and is safe for concurrent use.
//
// The run asks Refuses before each call, and gives each result to Note, also
// those of the journal when it goes on after a crash; what Note gave is what
// belongs into the journal.
type Repeats struct {
	mu     sync.Mutex
	recent []repeat // oldest first
}

type repeat struct{ call, result [sha256.Size]byte }

// A call is judged by the last calls of the run. Between equal ones there may
// be others, for a model can go round in a circle of several calls; and a
// result that differs starts the count anew, for waiting by asking is no loop.
const (
	repeatWindow   = 64
	repeatsNoted   = 5
	repeatsRefused = 20
)

const (
	repeatNote = "\n[This same call gave this same result several times. Making it again will not change that.]"
	repeatStop = "The call was not made: it was made 20 times with the same arguments, and always gave the same result. Do something else, or answer with what you know."
)

// Refuses says whether a call was made too often already, and with which
// result the model is told so.
func (r *Repeats) Refuses(name, arguments string) (Result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, _ := r.count(callKey(name, arguments)); n < repeatsRefused {
		return Result{}, false
	}
	return Failure(repeatStop), true
}

// Note remembers a call with its result, and gives the result as the model
// shall see it: with a note from the fifth equal one on.
func (r *Repeats) Note(name, arguments, output string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := repeat{call: callKey(name, arguments)}
	output = strings.TrimSuffix(output, repeatNote) // of the journal
	n, last := r.count(entry.call)
	if output == repeatStop && n > 0 { // a refusal is no other result
		entry.result = last
	} else {
		entry.result = sha256.Sum256([]byte(output))
	}
	if len(r.recent) == repeatWindow {
		r.recent = append(r.recent[:0], r.recent[1:]...)
	}
	r.recent = append(r.recent, entry)
	if n, _ = r.count(entry.call); n >= repeatsNoted && output != repeatStop {
		output += repeatNote
	}
	return output
}

// count says how often a call gave its newest result in a row, and which.
func (r *Repeats) count(call [sha256.Size]byte) (n int, result [sha256.Size]byte) {
	for _, e := range slices.Backward(r.recent) {
		switch {
		case e.call != call:
		case n == 0:
			n, result = 1, e.result
		case e.result != result:
			return n, result
		default:
			n++
		}
	}
	return n, result
}

// callKey is the same for arguments that mean the same.
func callKey(name, arguments string) [sha256.Size]byte {
	canonical := jsontext.Value(strings.TrimSpace(arguments))
	if len(canonical) == 0 {
		canonical = jsontext.Value("{}")
	}
	if canonical.Canonicalize() != nil { // no JSON: the same bytes are the same call
		canonical = jsontext.Value(arguments)
	}
	return sha256.Sum256([]byte(name + "\x00" + string(canonical)))
}
