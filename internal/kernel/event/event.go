// Package event is the log of what happened in a run, and its live fan-out.
//
// The log is the source of truth: it holds an event if and only if the state
// change that the event describes was committed. Live batches are an
// optimization: they reach readers before the log can be read, and may be lost.
// A reader that misses some catches up from the log.
package event

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
)

// Event is one thing that happened in a stream.
type Event struct {
	Seq  int64          // position in its stream, from 1; increases, with gaps
	Name string         // "run.started", "llm.chunk"
	At   time.Time      // microseconds
	Data jsontext.Value // a JSON object on one line, without the common fields

	// Result is the outcome of the stream. It is set on the final event if that
	// happened on this node, and spares those who wait for the outcome a read.
	// It is nil on every other event, and on events read from the log.
	Result any `json:"-"`

	// Shared caches the event's renderings for the readers on this node. It is
	// nil if there is only one reader, and on events read from the log.
	Shared *Shared `json:"-"`
	// More is set by a Follower if another event follows without a wait.
	More bool `json:"-"`
}

// Droppable reports whether a slow reader may miss the event (rule D7-droppable).
func (e Event) Droppable() bool { return Droppable(e.Name) }

// Droppable reports whether a slow reader may miss events of this name.
func Droppable(name string) bool { return name == "llm.chunk" || name == "llm.thinking" }

// Log is the port to stored events. A stream is named by the id of its run.
type Log interface {
	// Append returns an operation that adds a segment to a stream. The caller
	// assigns the seqs: it holds the stream's lease or row lock.
	Append(tenant, stream string, s Segment) txn.Op
	// Read returns up to limit events with a seq greater than after, in order.
	Read(ctx context.Context, tenant, stream string, after int64, limit int) ([]Event, error)
}

// Segment is a run of events that are stored in one row.
type Segment struct {
	First   int64 // seq of the first event
	Entries []Entry
	// Draft marks text chunks that were flushed before their step was committed.
	// It is the seq of that step, or 0. Committing the step replaces its drafts.
	Draft int64
}

// Entry is one event, or a row of text chunks whose text is stored elsewhere.
type Entry struct {
	Name string
	At   time.Time
	Data jsontext.Value
	// Lens, if not nil, makes the entry stand for len(Lens) events. Event i
	// carries the next Lens[i] bytes of a text and happened After[i]
	// milliseconds after At. The text is Text; if that is empty, it is the
	// output of step Step ("text" for llm.chunk, "thinking" for llm.thinking),
	// so that the words of a model are stored once. Each event also names its
	// step: Step, or else the members of Data.
	//
	// If Lens is nil, Step names the step that has what Data leaves out:
	// of a step.started its number, with StepID as its id;
	// of a tool.result the output ("content" in the output of the call's step),
	// and the step;
	// of a tool.call the arguments (in "tool_calls" of the output of the step
	// that requested the call); of a step.completed or llm.completed all of it,
	// so that Data is nil. A tool.call directly after a step.started is of that
	// step.
	Lens   []int
	After  []int
	Text   string
	Step   int64
	StepID string
}

// Count returns how many events the entry stands for.
func (e Entry) Count() int64 {
	if e.Lens != nil {
		return int64(len(e.Lens))
	}
	return 1
}

// Last returns the seq of the segment's last event.
func (s Segment) Last() int64 {
	n := s.First - 1
	for _, e := range s.Entries {
		n += e.Count()
	}
	return n
}
