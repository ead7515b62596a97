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
	// refreshInterval is how often the turns are read again at least. It bounds
	// how long a lost hint goes unnoticed.
	refreshInterval = 5 * time.Second
	// settleDelay is how long an event may take to arrive. While runs of several
	// branches are under way, an event of one is held back for that long if the
	// others have sent nothing since: theirs could still precede it.
	settleDelay = 300 * time.Millisecond
	// clockSkew is how far the clocks of nodes may differ. Runs that ended longer
	// than that before the place to resume from are not read.
	clockSkew = 10 * time.Second
	logPage   = 500
)

// merge merges the events of a session's runs into one order: by their times,
// and those of one run always by their seqs. On a branch that is the order in
// which they happened. An event that arrives after later ones were sent, in spite
// of settleDelay, is sent without an id: a client that resumes from an id is sent
// exactly the events behind it in the order.
type merge struct {
	*streamer
	ctx         context.Context
	tenant, id  string
	yield       func(route.Frame, error) bool
	arrivals    chan arrival
	readers     sync.WaitGroup
	lastTurn    int64     // the last turn that was read
	sources     []*source // the runs with events to send, by creation
	from        position  // events up to here are not sent
	last        position  // of the event that was sent last
	closing     bool      // the session accepts no more messages
	refreshedAt time.Time
}

// arrival is an event of a run that is under way, or the error that ended its
// reader.
type arrival struct {
	src   *source
	event event.Event
	err   error
}

// position is the place of an event in the order of its session.
type position struct {
	micros int64 // never less than that of an earlier event of the run
	run    string
	seq    int64
}

func (p position) before(q position) bool {
	switch {
	case p.micros != q.micros:
		return p.micros < q.micros
	case p.run != q.run:
		return p.run < q.run
	}
	return p.seq < q.seq
}

// source holds the events of one run.
type source struct {
	turn   TimedTurn
	queue  []positioned // read but not sent
	after  int64        // seq of the last event that was read
	micros int64        // and its time
	read   bool         // the log was read to its end
	live   bool         // a reader follows the log from there
	ended  bool         // the final event was read
}

type positioned struct {
	event event.Event
	at    position
}

func (src *source) add(e event.Event) {
	if e.Seq > 0 { // a gap has seq 0, and no position of its own
		src.after = e.Seq
		src.micros = max(src.micros, e.At.UnixMicro())
	}
	src.ended = src.ended || run.FinalEvent(e.Name)
	src.queue = append(src.queue, positioned{e, position{src.micros, src.turn.RunID, e.Seq}})
}

// refresh reads the turns that were added, and whether the session is closing.
func (m *merge) refresh() error {
	m.refreshedAt = time.Now()
	rec, err := m.store.Get(m.ctx, m.tenant, m.id)
	if err != nil {
		return err
	}
	m.closing = rec.status(m.clock.Now()) != Active // read before the turns: none is added later
	turns, err := m.store.ListTimedTurns(m.ctx, m.tenant, m.id, m.lastTurn)
	if err != nil {
		return err
	}
	for _, src := range m.sources {
		src.read = src.live || src.ended // a run that waits for its turn may have been cancelled
	}
	for _, t := range turns {
		m.lastTurn = t.Turn.Turn
		m.sources = append(m.sources, &source{turn: t})
	}
	slices.SortStableFunc(m.sources, func(a, b *source) int { return a.turn.CreatedAt.Compare(b.turn.CreatedAt) })
	return nil
}

// dropEnded drops the runs that ended before the place to resume from.
func (m *merge) dropEnded() {
	m.sources = slices.DeleteFunc(m.sources, func(src *source) bool {
		return src.turn.RunID != m.from.run && !src.turn.CompletedAt.IsZero() && src.turn.CompletedAt.Add(clockSkew).UnixMicro() < m.from.micros
	})
}

// sendReady sends the events whose place in the order is certain, and returns how
// long to wait for more.
func (m *merge) sendReady() (time.Duration, error) {
	for {
		next, othersPending, err := m.next()
		if err != nil {
			return 0, err
		}
		if next == nil {
			if m.closing && len(m.sources) == 0 {
				return 0, m.end()
			}
			return refreshInterval, nil
		}
		head := next.queue[0]
		if age := time.Since(head.event.At); othersPending && age < settleDelay {
			return min(settleDelay-age, settleDelay), nil
		}
		next.queue = next.queue[1:]
		if err := m.sendEvent(next, head); err != nil {
			return 0, err
		}
		if next.ended && len(next.queue) == 0 {
			m.remove(next)
		}
	}
}

func (m *merge) remove(src *source) {
	m.sources = slices.DeleteFunc(m.sources, func(s *source) bool { return s == src })
}

// next returns the source of the first event in the order. othersPending reports
// whether another run that is under way may still have an earlier event.
func (m *merge) next() (next *source, othersPending bool, err error) {
	current := m.currentTurns()
	for _, src := range slices.Clone(m.sources) {
		if next != nil && src.turn.CreatedAt.UnixMicro() > next.queue[0].at.micros {
			break // this run and those after it were created later
		}
		if err := m.fill(src, current[src.turn.BranchID] == src.turn.Turn.Turn); err != nil {
			return nil, false, err
		}
		switch {
		case len(src.queue) == 0 && src.ended: // the client has received all of it
			m.remove(src)
		case len(src.queue) == 0:
			othersPending = othersPending || src.live
		case next == nil || src.queue[0].at.before(next.queue[0].at):
			next = src
		}
	}
	return next, othersPending, nil
}

// currentTurns returns the turn of each branch that is under way, as far as the
// events that were read show it.
func (m *merge) currentTurns() map[string]int64 {
	current := map[string]int64{}
	for _, src := range m.sources {
		turn, ok := current[src.turn.BranchID]
		if !src.ended && (!ok || src.turn.Turn.Turn < turn) {
			current[src.turn.BranchID] = src.turn.Turn.Turn
		}
	}
	return current
}

// fill reads events of a source that has none queued. If the run is under way and
// its log was read to the end, a reader follows it from there.
func (m *merge) fill(src *source, underWay bool) error {
	for len(src.queue) == 0 && !src.ended && !src.read {
		if err := m.readLog(src); err != nil {
			return err
		}
		src.queue = slices.DeleteFunc(src.queue, func(p positioned) bool { return !m.from.before(p.at) })
	}
	if underWay && src.read && !src.live && !src.ended {
		src.live = true
		after := src.after // merge changes src.after while the reader runs
		m.readers.Go(func() { m.followRun(src, after) })
	}
	return nil
}

// readLog reads a page of the stored events of a run.
func (m *merge) readLog(src *source) error {
	var events []event.Event
	err := event.OnOwnStack(m.ctx, func() (err error) {
		events, err = m.log.Read(m.ctx, m.tenant, src.turn.RunID, src.after, logPage)
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

// followRun sends the events of a run to arrivals until the run ends or ctx does.
func (m *merge) followRun(src *source, after int64) {
	follow := event.Follower{Log: m.log, Hub: m.hub}
	for e, err := range follow.Follow(m.ctx, m.tenant, src.turn.RunID, after) {
		select {
		case m.arrivals <- arrival{src, e, err}:
		case <-m.ctx.Done():
			return
		}
		if err != nil || run.FinalEvent(e.Name) {
			return
		}
	}
}

// sendEvent sends an event, with run_added before the first and done after the
// last one of a run.
func (m *merge) sendEvent(src *source, p positioned) error {
	if p.event.Seq == 1 {
		t := src.turn
		err := m.sendSession(hintRunAdded, sessionData{
			SessionID: m.id, RunID: t.RunID, BranchID: t.BranchID, Turn: t.Turn.Turn, Timestamp: p.event.At,
		})
		if err != nil {
			return err
		}
	}
	frame := run.EventFrame(src.turn.RunID, m.id, p.event)
	frame.More = false // the run cannot know which event of the session follows
	if p.at.before(m.last) {
		frame.ID, frame.Wire = "", nil
	} else {
		m.last = p.at
	}
	if err := m.send(frame); err != nil {
		return err
	}
	if !run.FinalEvent(p.event.Name) {
		return nil
	}
	return m.sendDone(src.turn.RunID, p.event.Seq)
}

// end sends the last frame of the stream.
func (m *merge) end() error {
	rec, err := m.store.Get(m.ctx, m.tenant, m.id)
	if err != nil {
		return err
	}
	now := m.clock.Now()
	if err := m.sendSession(hintClosed, sessionData{SessionID: m.id, Status: rec.status(now), Timestamp: now}); err != nil {
		return err
	}
	return errStreamOver
}
