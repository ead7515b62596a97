package tool

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Repeats detects a model that makes the same call for ever: same tool, same
// arguments, same result. It belongs to one run. The zero value has no history,
// and is safe for concurrent use.
//
// The run calls Refuses before each call and Note with each result, also with
// those in the journal when it resumes after a crash. The journal stores what
// Note returns.
type Repeats struct {
	mu     sync.Mutex
	recent []repeat // oldest first
}

type repeat struct{ call, result [sha256.Size]byte }

// A call is compared with the last repeatWindow calls of the run. There may be
// other calls between equal ones, as a model can loop over several calls. A
// different result restarts the count, as polling until something changes is
// not a loop.
const (
	repeatWindow   = 64
	repeatsNoted   = 5
	repeatsRefused = 20
)

const (
	repeatNote = "\n[This same call gave this same result several times. Making it again will not change that.]"
	repeatStop = "The call was not made: it was made 20 times with the same arguments, and always gave the same result. " +
		"Do something else, or answer with what you know."
)

// Refuses reports whether a call was made too often already, and returns the
// failed result for the model in that case.
func (r *Repeats) Refuses(name, arguments string) (Result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, _ := r.count(callKey(name, arguments)); n < repeatsRefused {
		return Result{}, false
	}
	return Failure(repeatStop), true
}

// Note records a call with its result, and returns the result for the model: with
// a note from the fifth equal one on.
func (r *Repeats) Note(name, arguments, output string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := repeat{call: callKey(name, arguments)}
	output = strings.TrimSuffix(output, repeatNote) // if it comes from the journal
	n, last := r.count(entry.call)
	if output == repeatStop && n > 0 { // a refusal is not a different result
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

// count returns how often in a row a call had its latest result, and that result.
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

// callKey returns the same key for arguments that are the same JSON value.
func callKey(name, arguments string) [sha256.Size]byte {
	canonical := jsontext.Value(strings.TrimSpace(arguments))
	if len(canonical) == 0 {
		canonical = jsontext.Value("{}")
	}
	if canonical.Canonicalize() != nil { // not JSON: only equal bytes are the same call
		canonical = jsontext.Value(arguments)
	}
	return sha256.Sum256([]byte(name + "\x00" + string(canonical)))
}
