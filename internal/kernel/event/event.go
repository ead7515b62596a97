// Package event is the log of what happened in a run, and its live fan-out.
//
// The log is the truth: an event is in it if and only if the state change that
// it tells of committed. Live batches are hints and bytes that arrive earlier
// than the log can be read; a reader that misses some catches up from the log.
package event

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
)

// Event is one thing that happened in a stream.
type Event struct {
	Seq  int64          // position in its stream, from 1; grows, with holes
	Name string         // "run.started", "llm.chunk"
	At   time.Time      // microseconds
	Data jsontext.Value // a JSON object on one line, without the common fields

	// Result is what the stream came to, with its final event where that
	// happened on this node: it spares those who wait for it a read. Nil
	// elsewhere, and in what the log gives.
	Result any `json:"-"`

	// Shared is what this node's readers have in common; nil where there are
	// not several, and in what the log gives.
	Shared *Shared `json:"-"`
	// More says that a Follower gives another event at once.
	More bool `json:"-"`
}

// Droppable says whether a slow reader may miss the event (decisions.md D7).
func (e Event) Droppable() bool { return Droppable(e.Name) }

// Droppable says the same of a name.
func Droppable(name string) bool { return name == "llm.chunk" || name == "llm.thinking" }

// Log is the port to stored events. A stream is a run's id.
type Log interface {
	// Append adds a segment to a stream. Seqs are the caller's: it holds the
	// stream's lease or row lock.
	Append(tenant, stream string, s Segment) txn.Op
	// Read gives up to limit events strictly after a seq, in order.
	Read(ctx context.Context, tenant, stream string, after int64, limit int) ([]Event, error)
}

// Segment is a run of events that are stored in one row.
type Segment struct {
	First   int64 // seq of the first event
	Entries []Entry
	// Draft marks text chunks that were flushed before their step committed:
	// the seq of that step. Committing the step replaces its drafts.
	Draft int64
}

// Entry is one event, or a row of text chunks whose text is stored elsewhere.
type Entry struct {
	Name string
	At   time.Time
	Data jsontext.Value
	// Lens makes the entry stand for len(Lens) events that each carry the next
	// Lens[i] bytes of a text: of Text, or, where Text is empty, of the output
	// of the step Step ("text" for llm.chunk, "thinking" for llm.thinking), so
	// that what a model said is stored once. After[i] is milliseconds after At.
	//
	// Without Lens, Step has what Data leaves out: of a tool.result the output
	// ("content" of the output of the call's step), of a tool.call the arguments
	// (in "tool_calls" of the output of the step that asked for the call); and
	// of a step.completed and an llm.completed everything, so that Data is nil.
	Lens  []int
	After []int
	Text  string
	Step  int64
}

// Count is how many events the entry stands for.
func (e Entry) Count() int64 {
	if e.Lens != nil {
		return int64(len(e.Lens))
	}
	return 1
}

// Last is the seq of the segment's last event.
func (s Segment) Last() int64 {
	n := s.First - 1
	for _, e := range s.Entries {
		n += e.Count()
	}
	return n
}
