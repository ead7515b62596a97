package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/work"
)

const (
	// flushEvery is how long a chunk may be published before it is stored, unless
	// Config.FlushEvery says otherwise.
	flushEvery = 50 * time.Millisecond
	// flushTogether is how many runs' drafts share one write: few enough that
	// writes that start or end a run are hardly delayed.
	flushTogether = 64
)

// chunkBuffer is the text of the running step so far, in rows of chunks. A row
// ends where the model changes between thinking and answering. The run's
// goroutine adds to it; the flusher stores drafts of it.
type chunkBuffer struct {
	mu        sync.Mutex
	step      int64          // seq of the step
	ofStep    jsontext.Value // the members of its events that name it
	base      int64          // seq of the event before its first chunk
	rows      []chunkRow
	count     int64 // chunks so far
	flushed   int64 // of these, stored as drafts
	uncertain bool  // a flush failed, and may have been stored all the same
	flushing  bool
	idle      sync.Cond // signalled when flushing ends; set by newChunkBuffer
}

type chunkRow struct {
	name  string
	at    time.Time
	lens  []int
	after []int
	text  []byte
}

func newChunkBuffer() *chunkBuffer {
	t := &chunkBuffer{}
	t.idle.L = &t.mu
	return t
}

// open starts the text of a step.
func (t *chunkBuffer) open(step run.StepRef, base int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.step != step.StepSeq {
		t.step, t.ofStep = step.StepSeq, encode(step)
	}
	t.base = base
}

// any reports whether the step has text.
func (t *chunkBuffer) any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count > 0
}

// add appends a chunk and reports whether it is the first that is not stored.
func (t *chunkBuffer) add(name, text string, at time.Time) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.rows); n == 0 || t.rows[n-1].name != name {
		t.rows = append(t.rows, chunkRow{name: name, at: at})
	}
	r := &t.rows[len(t.rows)-1]
	r.lens = append(r.lens, len(text))
	r.after = append(r.after, int(at.Sub(r.at).Milliseconds()))
	r.text = append(r.text, text...)
	t.count++
	return t.count == t.flushed+1
}

func (t *chunkBuffer) unstored() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count - t.flushed
}

// begin returns the chunks that are not stored, with their text. Until end is
// called no other flush begins and the step does not end. upto is 0 where all
// chunks are stored. After an uncertain flush it returns all chunks of the
// step, which replace whatever is stored.
func (t *chunkBuffer) begin() (draft event.Segment, upto int64, replaces bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flushing || t.count == t.flushed {
		return draft, 0, false
	}
	t.flushing = true
	skip := t.flushed
	if t.uncertain {
		skip = 0
	}
	draft = event.Segment{First: t.base + skip + 1, Draft: t.step}
	for _, r := range t.rows {
		n := int64(len(r.lens))
		if skip >= n {
			skip -= n
			continue
		}
		bytes := 0
		for _, l := range r.lens[:skip] {
			bytes += l
		}
		draft.Entries = append(draft.Entries, event.Entry{
			Name: r.name, At: r.at, Lens: r.lens[skip:n:n], After: r.after[skip:n:n], Text: string(r.text[bytes:]), Data: t.ofStep,
		})
		skip = 0
	}
	return draft, t.count, t.uncertain
}

// end records that chunks up to a count are stored, or with 0 that the flush
// failed, and reports whether more chunks came meanwhile.
func (t *chunkBuffer) end(upto int64) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flushing, t.uncertain = false, upto == 0
	t.flushed = max(t.flushed, upto)
	t.idle.Broadcast()
	return t.count > t.flushed
}

// sealedText is the whole text of a step, and whether drafts of it are stored.
type sealedText struct {
	text, thinking string
	drafts         bool
}

// seal waits for a flush that is under way, empties the buffer and returns the
// whole text: as log entries that refer to the step, and as the text that the
// step keeps.
func (t *chunkBuffer) seal() (entries []event.Entry, s sealedText) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.flushing {
		t.idle.Wait()
	}
	for _, r := range t.rows {
		entries = append(entries, event.Entry{Name: r.name, At: r.at, Lens: r.lens, After: r.after, Step: t.step})
		if r.name == thinkingChunk {
			s.thinking += string(r.text)
		} else {
			s.text += string(r.text)
		}
	}
	s.drafts = t.flushed > 0 || t.uncertain
	t.rows, t.count, t.flushed, t.uncertain = nil, 0, 0, false
	return entries, s
}

// flusher stores the drafts of all runs of this node together.
type flusher struct {
	e *Engine

	mu      sync.Mutex
	waiting []*journal
	timer   *time.Timer
}

func newFlusher(e *Engine) *flusher {
	f := &flusher{e: e, timer: time.NewTimer(time.Hour)}
	f.timer.Stop()
	return f
}

// note schedules a flush for a run that has chunks that are not stored.
func (f *flusher) note(j *journal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, j)
	if len(f.waiting) == 1 {
		every := flushEvery
		if f.e.FlushEvery != nil {
			every = f.e.FlushEvery()
		}
		f.timer.Reset(every)
	}
}

func (f *flusher) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.timer.C:
		}
		f.mu.Lock()
		all := f.waiting
		f.waiting = nil
		f.mu.Unlock()
		for group := range slices.Chunk(all, flushTogether) {
			f.flush(ctx, group)
		}
	}
}

// draft is the write of one run's chunks up to a count.
type draft struct {
	j     *journal
	store txn.Op
	upto  int64
}

// flush stores the waiting chunks of these runs in one commit. Chunks that
// cannot be stored keep waiting; the step's commit stores them at the latest.
func (f *flusher) flush(ctx context.Context, journals []*journal) {
	var drafts []draft
	for _, j := range journals {
		if d := f.draftOf(j); d.upto > 0 {
			drafts = append(drafts, d)
		}
	}
	if len(drafts) == 0 {
		return
	}
	err := f.e.Writer.Write(ctx, func(tx txn.Tx) error {
		for _, d := range drafts {
			err := f.e.Queue.HoldTx(tx, d.j.lease, f.e.Lease)
			if errors.Is(err, work.ErrLost) {
				continue
			}
			if err == nil {
				err = d.store(tx)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	for _, d := range drafts {
		if err != nil {
			d.upto = 0
		}
		if d.j.text.end(d.upto) {
			f.note(d.j)
		}
	}
	if err != nil {
		f.e.Logger.Warn("text of running steps could not be stored yet", "runs", len(drafts), "err", err)
	}
}

func (f *flusher) draftOf(j *journal) draft {
	segment, upto, replaces := j.text.begin()
	if upto == 0 {
		return draft{}
	}
	store := f.e.Log.Append(j.rec.TenantID, j.rec.RunID, segment)
	if replaces {
		add := store
		store = func(tx txn.Tx) error {
			if err := f.e.Log.DeleteDraftsTx(tx, j.rec.TenantID, j.rec.RunID, segment.Draft); err != nil {
				return err
			}
			return add(tx)
		}
	}
	return draft{j, store, upto}
}
