package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentd/internal/base/route"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

const (
	// lookAgain is how long a hint that was lost can go unnoticed, at least.
	lookAgain = 5 * time.Second
	// settling is how long an event may be under way. Where runs of several
	// branches speak at once, an event of one is held back for that long if the
	// others have not been heard of since: theirs could still come before it.
	settling = 300 * time.Millisecond
	// margin is how far the clocks of nodes may differ before a run is left out
	// as over though it was not.
	margin  = 10 * time.Second
	logPage = 500
)

// feed merges the events of a session's runs into one order: by their times,
// and those of one run always by their seqs. On a branch that is the order in
// which things happened. An event that arrives when later ones were given
// already, in spite of settling, is given without an id: whoever resumes from
// an id gets exactly what stands behind it in the order.
type feed struct {
	s          *Service
	ctx        context.Context
	tenant, id string
	yield      func(route.Frame, error) bool
	arrived    chan arrival
	readers    sync.WaitGroup
	turn       int64     // the last one that was found
	sources    []*source // whose last event was not given yet, by when they began
	from       place     // nothing up to here is given
	last       place     // of the event that was given last
	closing    bool      // the session takes no more messages
	looked     time.Time // when that was asked
}

// arrival is what the reader of a run that is under way heard.
type arrival struct {
	src *source
	e   event.Event
	err error
}

// place is where an event stands in the order of its session.
type place struct {
	at  int64 // microseconds; never less than that of an earlier event of the run
	run string
	seq int64
}

func (p place) before(q place) bool {
	switch {
	case p.at != q.at:
		return p.at < q.at
	case p.run != q.run:
		return p.run < q.run
	}
	return p.seq < q.seq
}

// source is one run's events.
type source struct {
	turn  TimedTurn
	queue []placed // read and not given
	after int64    // seq of the last event that was read
	at    int64    // and its place
	read  bool     // the log was read to its end
	live  bool     // a reader follows it from there
	ended bool     // the final event was read
}

type placed struct {
	e  event.Event
	at place
}

func (src *source) add(e event.Event) {
	if e.Seq > 0 { // else it is a gap, which has no place of its own
		src.after = e.Seq
		src.at = max(src.at, e.At.UnixMicro())
	}
	src.ended = src.ended || run.FinalEvent(e.Name)
	src.queue = append(src.queue, placed{e, place{src.at, src.turn.RunID, e.Seq}})
}

// look finds the turns that were added, and whether the session is over.
func (f *feed) look() error {
	f.looked = time.Now()
	rec, err := f.s.Store.Get(f.ctx, f.tenant, f.id)
	if err != nil {
		return err
	}
	f.closing = rec.status(f.s.Clock.Now()) != Active // read before the turns: none comes after
	turns, err := f.s.Store.ListTurns(f.ctx, f.tenant, f.id, f.turn)
	if err != nil {
		return err
	}
	for _, src := range f.sources {
		src.read = src.live || src.ended // one that waits its turn may have been cancelled
	}
	for _, t := range turns {
		f.turn = t.Turn.Turn
		f.sources = append(f.sources, &source{turn: t})
	}
	slices.SortStableFunc(f.sources, func(a, b *source) int { return a.turn.CreatedAt.Compare(b.turn.CreatedAt) })
	return nil
}

// forget leaves out the runs that were over before the place to resume from.
func (f *feed) forget() {
	f.sources = slices.DeleteFunc(f.sources, func(src *source) bool {
		return src.turn.RunID != f.from.run && !src.turn.CompletedAt.IsZero() && src.turn.CompletedAt.Add(margin).UnixMicro() < f.from.at
	})
}

// give gives the events whose place in the order is certain, and says how long
// to wait for more.
func (f *feed) give() (time.Duration, error) {
	for {
		next, silent, err := f.next()
		if err != nil {
			return 0, err
		}
		if next == nil {
			if f.closing && len(f.sources) == 0 {
				return 0, f.end()
			}
			return lookAgain, nil
		}
		head := next.queue[0]
		if age := time.Since(head.e.At); silent && age < settling {
			return min(settling-age, settling), nil
		}
		next.queue = next.queue[1:]
		if err := f.show(next, head); err != nil {
			return 0, err
		}
		if next.ended && len(next.queue) == 0 {
			f.sources = slices.DeleteFunc(f.sources, func(src *source) bool { return src == next })
		}
	}
}

// next finds the source of the first event in the order. Silent says that
// another one, of which nothing is known, may still have an earlier event.
func (f *feed) next() (next *source, silent bool, err error) {
	heads := f.heads()
	quiet := 0
	for _, src := range slices.Clone(f.sources) {
		if next != nil && src.turn.CreatedAt.UnixMicro() > next.queue[0].at.at {
			break // it, and those behind it, began later
		}
		if err := f.fill(src, heads[src.turn.BranchID] == src.turn.Turn.Turn); err != nil {
			return nil, false, err
		}
		switch {
		case len(src.queue) == 0 && src.ended: // all of it is behind the reader
			f.sources = slices.DeleteFunc(f.sources, func(s *source) bool { return s == src })
		case len(src.queue) == 0:
			if src.live {
				quiet++
			}
		case next == nil || src.queue[0].at.before(next.queue[0].at):
			next = src
		}
	}
	return next, quiet > 0, nil
}

// heads gives the turn of each branch that it is, as far as the feed knows.
func (f *feed) heads() map[string]int64 {
	heads := map[string]int64{}
	for _, src := range f.sources {
		at, seen := heads[src.turn.BranchID]
		if !src.ended && (!seen || src.turn.Turn.Turn < at) {
			heads[src.turn.BranchID] = src.turn.Turn.Turn
		}
	}
	return heads
}

// fill sees to it that a source has an event if there is one. The log of a run
// whose turn has come is followed beyond its end.
func (f *feed) fill(src *source, turn bool) error {
	for len(src.queue) == 0 && !src.ended && !src.read {
		if err := f.readLog(src); err != nil {
			return err
		}
		src.queue = slices.DeleteFunc(src.queue, func(p placed) bool { return !f.from.before(p.at) })
	}
	if turn && src.read && !src.live && !src.ended {
		src.live = true
		after := src.after // the reader goes on while the feed adds
		f.readers.Go(func() { f.listen(src, after) })
	}
	return nil
}

// readLog reads a page of what is stored of a run.
func (f *feed) readLog(src *source) error {
	var events []event.Event
	err := event.Aside(f.ctx, func() (err error) {
		events, err = f.s.Log.Read(f.ctx, f.tenant, src.turn.RunID, src.after, logPage)
		return err
	})
	if err != nil {
		return err
	}
	for _, e := range events {
		src.add(e)
	}
	src.read = len(events) < logPage
	return nil
}

// listen follows a run to its end. It is a goroutine, which ends with the feed.
func (f *feed) listen(src *source, after int64) {
	follow := event.Follower{Log: f.s.Log, Hub: f.s.Hub}
	for e, err := range follow.Follow(f.ctx, f.tenant, src.turn.RunID, after) {
		select {
		case f.arrived <- arrival{src, e, err}:
		case <-f.ctx.Done():
			return
		}
		if err != nil || run.FinalEvent(e.Name) {
			return
		}
	}
}

// show gives one event, and what belongs around it.
func (f *feed) show(src *source, p placed) error {
	if p.e.Seq == 1 {
		t := src.turn
		err := f.tell(hintRun, sessionData{SessionID: f.id, RunID: t.RunID, BranchID: t.BranchID, Turn: t.Turn.Turn, Timestamp: p.e.At})
		if err != nil {
			return err
		}
	}
	frame := run.EventFrame(src.turn.RunID, f.id, p.e)
	frame.More = false // what comes next is the feed's to say, not the run's
	if p.at.before(f.last) {
		frame.ID, frame.Wire = "", nil
	} else {
		f.last = p.at
	}
	if err := f.send(frame); err != nil {
		return err
	}
	if !run.FinalEvent(p.e.Name) {
		return nil
	}
	return f.done(src.turn.RunID, p.e.Seq)
}

func (f *feed) end() error {
	rec, err := f.s.Store.Get(f.ctx, f.tenant, f.id)
	if err != nil {
		return err
	}
	now := f.s.Clock.Now()
	if err := f.tell(hintEnd, sessionData{SessionID: f.id, Status: rec.status(now), Timestamp: now}); err != nil {
		return err
	}
	return errOver
}
