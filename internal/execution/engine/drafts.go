package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/work"
)

const (
	// flushEvery is how long a chunk may be live before it is stored.
	flushEvery = 50 * time.Millisecond
	// flushTogether is how many runs' drafts share a write: few enough that
	// those who wait to start or end a run hardly notice.
	flushTogether = 64
)

// steptext is what the model said so far in the step that runs, in rows of
// chunks: a new row wherever it changes between thinking and speaking. The
// run's goroutine adds to it, the flusher stores drafts of it.
type steptext struct {
	mu       sync.Mutex
	step     int64 // seq of the step
	base     int64 // seq of the event before its first chunk
	rows     []textrow
	count    int64 // chunks so far
	flushed  int64 // of these, stored as drafts
	unsure   bool  // a flush failed, and may have been stored all the same
	flushing bool
	idle     sync.Cond // signalled when flushing ends; made by newSteptext
}

type textrow struct {
	name  string
	at    time.Time
	lens  []int
	after []int
	text  []byte
}

func newSteptext() *steptext {
	t := &steptext{}
	t.idle.L = &t.mu
	return t
}

// open starts the text of a step.
func (t *steptext) open(step, base int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step, t.base = step, base
}

// add appends a chunk and says whether it is the first that waits.
func (t *steptext) add(name, text string, at time.Time) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.rows); n == 0 || t.rows[n-1].name != name {
		t.rows = append(t.rows, textrow{name: name, at: at})
	}
	r := &t.rows[len(t.rows)-1]
	r.lens = append(r.lens, len(text))
	r.after = append(r.after, int(at.Sub(r.at).Milliseconds()))
	r.text = append(r.text, text...)
	t.count++
	return t.count == t.flushed+1
}

func (t *steptext) unstored() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count - t.flushed
}

// begin gives the chunks that wait, with their text, and keeps others from
// flushing, and the step from ending, until end. upto 0: nothing waits. Where
// nobody knows what is stored these are all chunks, and they replace it.
func (t *steptext) begin() (draft event.Segment, upto int64, replaces bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flushing || t.count == t.flushed {
		return draft, 0, false
	}
	t.flushing = true
	skip := t.flushed
	if t.unsure {
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
			Name: r.name, At: r.at, Lens: r.lens[skip:n:n], After: r.after[skip:n:n], Text: string(r.text[bytes:]),
		})
		skip = 0
	}
	return draft, t.count, t.unsure
}

// end says that chunks up to a count are stored, 0 that the flush failed, and
// returns whether any wait by now.
func (t *steptext) end(upto int64) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flushing, t.unsure = false, upto == 0
	t.flushed = max(t.flushed, upto)
	t.idle.Broadcast()
	return t.count > t.flushed
}

// said is what a step said, and whether drafts of it are stored.
type said struct {
	text, thinking string
	drafts         bool
}

// seal waits for a flush under way and gives the whole text: as entries that
// refer to their step, and as what the step is to keep. It is empty afterwards.
func (t *steptext) seal() (entries []event.Entry, s said) {
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
	s.drafts = t.flushed > 0 || t.unsure
	t.rows, t.count, t.flushed, t.unsure = nil, 0, 0, false
	return entries, s
}

// flusher stores the drafts of all runs of this node together.
type flusher struct {
	e *Engine

	mu      sync.Mutex
	waiting []*attempt
	timer   *time.Timer
}

func newFlusher(e *Engine) *flusher {
	f := &flusher{e: e, timer: time.NewTimer(time.Hour)}
	f.timer.Stop()
	return f
}

// note says that an attempt has chunks that are not stored.
func (f *flusher) note(a *attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, a)
	if len(f.waiting) == 1 {
		f.timer.Reset(flushEvery)
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
		for some := range slices.Chunk(all, flushTogether) {
			f.flush(ctx, some)
		}
	}
}

// flush stores what waits of these attempts in one commit. What cannot be
// stored stays waiting: the step's commit brings it.
func (f *flusher) flush(ctx context.Context, attempts []*attempt) {
	type draft struct {
		a     *attempt
		store txn.Op
		upto  int64
	}
	var drafts []draft
	for _, a := range attempts {
		seg, upto, replaces := a.text.begin()
		if upto == 0 {
			continue
		}
		store := f.e.Log.Append(a.rec.TenantID, a.rec.RunID, seg)
		if replaces {
			add := store
			store = func(tx txn.Tx) error {
				if err := f.e.Log.DeleteDraftsTx(tx, a.rec.TenantID, a.rec.RunID, seg.Draft); err != nil {
					return err
				}
				return add(tx)
			}
		}
		drafts = append(drafts, draft{a, store, upto})
	}
	if len(drafts) == 0 {
		return
	}
	err := f.e.Writer.Write(ctx, func(tx txn.Tx) error {
		for _, d := range drafts {
			err := f.e.Queue.HoldTx(tx, d.a.lease, f.e.Lease)
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
		if d.a.text.end(d.upto) {
			f.note(d.a)
		}
	}
	if err != nil {
		f.e.Logger.Warn("text of running steps could not be stored yet", "runs", len(drafts), "err", err)
	}
}
