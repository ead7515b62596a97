package live

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/kernel/event"
)

// Bounds of a room.
const (
	maxEntries = 4096
	maxBytes   = 8 << 20
	maxPending = 4096 // changes that wait to be read; more are a gap
)

// room is the changes of one company on this node, for all of its readers. One
// goroutine fills it.
type room struct {
	s      *Service
	tenant string

	mu      sync.Mutex
	readers int
	emptied time.Time // when the last reader left
	entries []entry   // in order of seq
	bytes   int
	since   int64 // entries holds everything after this position
	changed chan struct{}
	counted map[string]counted // by the counter's name, and the user's id of a personal one

	// Of the goroutine alone.
	pending map[string]*waiting
	order   []string
	sent    map[string]time.Time // when a thing was last shown, lately
}

// entry is one frame of a room.
type entry struct {
	seq    int64
	kind   string
	id     string
	user   string
	parent string
	gap    bool
	frame  route.Frame
}

// waiting is a change whose row is to be read.
type waiting struct {
	Change
	due time.Time
}

// counted is the value of a counter as it was at a position.
type counted struct {
	at    int64
	value jsontext.Value
}

// enter returns the room of a company, for one more reader, who leaves it.
// Errors: fault.Unavailable when the server stops.
func (s *Service) enter(tenant string) (*room, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, fault.New(fault.Unavailable, "", "This server is stopping; retry in a few seconds.")
	}
	r := s.rooms[tenant]
	if r == nil {
		r = &room{
			s: s, tenant: tenant, changed: make(chan struct{}), counted: map[string]counted{},
			pending: map[string]*waiting{}, sent: map[string]time.Time{},
		}
		s.rooms[tenant] = r
		sub := s.Hub.Subscribe(StreamName(tenant))
		r.since = s.now()
		s.running.Go(func() { r.run(s.ctx, sub) })
	}
	r.mu.Lock()
	r.readers++
	r.mu.Unlock()
	return r, nil
}

func (r *room) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.readers--; r.readers == 0 {
		r.emptied = time.Now()
	}
}

// close removes the room if nobody has come back to it.
func (r *room) close() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.readers > 0 || time.Since(r.emptied) < lingers {
		return false
	}
	delete(r.s.rooms, r.tenant)
	return true
}

// run fills the room until ctx ends or nobody needs it any more.
func (r *room) run(ctx context.Context, sub *event.Subscription) {
	defer func() { sub.Close() }()
	idle := time.NewTicker(lingers / 4)
	defer idle.Stop()
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-idle.C:
			if r.close() {
				return
			}
		case <-due.C:
		case <-sub.Ready():
			if err := r.collect(sub); err != nil { // too much happened at once
				sub.Close()
				sub = r.s.Hub.Subscribe(StreamName(r.tenant))
				r.missed()
			}
		}
		due.Reset(r.flush(ctx))
	}
}

// collect takes the announced changes. Several of one thing become one.
func (r *room) collect(sub *event.Subscription) error {
	batches, _, err := sub.Drain()
	if err != nil {
		return err
	}
	for _, b := range batches {
		if len(b.Events) == 0 { // some may have been lost
			r.missed()
		}
		for _, e := range b.Events {
			var c Change
			if json.Unmarshal(e.Data, &c) == nil {
				r.take(c)
			}
		}
	}
	if len(r.pending) > maxPending {
		r.missed()
	}
	return nil
}

func (r *room) take(c Change) {
	key := c.Kind + "/" + c.ID + "/" + c.User
	if p := r.pending[key]; p != nil {
		if p.Op == Created && c.Op == Updated {
			c.Op = Created
		}
		p.Change = c
		return
	}
	p := &waiting{Change: c}
	if last, lately := r.sent[key]; lately {
		p.due = last.Add(perObject)
	}
	r.pending[key] = p
	r.order = append(r.order, key)
}

// missed drops what waits and tells the readers to load their lists again.
func (r *room) missed() {
	clear(r.pending)
	r.order = nil
	data, _ := json.Marshal(gapData{Event: "gap", Reason: "changes were lost"}) // texts alone
	r.append(entry{gap: true, frame: route.Frame{Name: "gap", Data: data}})
}

// flush shows the changes that are due, and returns when the next ones are.
func (r *room) flush(ctx context.Context) time.Duration {
	now := time.Now()
	for key, at := range r.sent {
		if now.Sub(at) >= perObject {
			delete(r.sent, key)
		}
	}
	next := time.Hour
	var later []string
	for _, key := range r.order {
		p := r.pending[key]
		if p == nil {
			continue
		}
		if wait := p.due.Sub(now); wait > 0 {
			later, next = append(later, key), min(next, wait)
			continue
		}
		delete(r.pending, key)
		r.sent[key] = now
		r.show(ctx, p.Change)
	}
	r.order = later
	return next
}

// show appends the frame of a change.
func (r *room) show(ctx context.Context, c Change) {
	if c.Kind == approvalsOfRun {
		r.showApprovals(ctx, c.ID)
		return
	}
	d := changedData{Event: "changed", Kind: c.Kind, ID: c.ID, Op: c.Op, Version: c.Version, Row: c.Row}
	src, known := r.s.source(c.Kind)
	switch {
	case !known:
		return // of a kind that cannot be read
	case c.ID == "" || c.Op == Deleted || c.Row != nil || src.Row == nil:
	default:
		row, version, err := src.Row(ctx, r.tenant, c.ID)
		switch {
		case fault.Is(err, fault.NotFound):
			return // it was deleted since, which is another change
		case err != nil:
			if ctx.Err() == nil {
				r.s.Log.Warn("a changed row could not be read", "kind", c.Kind, "id", c.ID, "err", err)
				r.missed()
			}
			return
		}
		d.Row = row
		d.Version = max(version, c.Version)
	}
	e := entry{kind: c.Kind, id: c.ID, user: c.User, parent: c.Parent}
	if c.ID != "" {
		d.At = r.s.Clock.Now()
		data, err := json.Marshal(d)
		if err != nil {
			return
		}
		e.frame = route.Frame{Name: "changed", Data: data}
	}
	r.append(e)
}

func (r *room) showApprovals(ctx context.Context, runID string) {
	ids, err := r.s.Runs.PendingApprovals(ctx, r.tenant, runID)
	if err != nil && ctx.Err() == nil {
		r.missed()
	}
	for _, id := range ids {
		r.show(ctx, Change{Kind: "approval", ID: id, Op: Created})
	}
}

// append adds an entry at the end and wakes the readers.
func (r *room) append(e entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.seq = max(r.s.now(), r.lastLocked()+1)
	if e.frame.Data != nil {
		e.frame.ID = r.s.idOf(e.seq)
		e.frame.Wire = e.frame.AppendWire(nil)
	}
	r.entries = append(r.entries, e)
	r.bytes += len(e.frame.Wire)
	drop := 0
	for len(r.entries)-drop > maxEntries || r.bytes > maxBytes && drop < len(r.entries)-1 {
		r.bytes -= len(r.entries[drop].frame.Wire)
		r.since = r.entries[drop].seq
		drop++
	}
	r.entries = slices.Delete(r.entries, 0, drop)
	close(r.changed)
	r.changed = make(chan struct{})
}

// last returns the position of the newest entry, or that from which the room knows all.
func (r *room) last() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastLocked()
}

func (r *room) lastLocked() int64 {
	if n := len(r.entries); n > 0 {
		return r.entries[n-1].seq
	}
	return r.since
}

// after returns up to a page of the entries after a position, and a channel that is closed
// when there are more. known is false where some between are not kept any more.
func (r *room) after(seq int64) (found []entry, more <-chan struct{}, known bool) {
	const page = 256
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := slices.BinarySearchFunc(r.entries, seq+1, func(e entry, seq int64) int { return int(e.seq - seq) })
	end := min(i+page, len(r.entries))
	return slices.Clone(r.entries[i:end]), r.changed, seq >= r.since
}

// count returns the value of a counter as it is now. Readers share it until something
// changes.
func (r *room) count(ctx context.Context, c Counter, user string) (jsontext.Value, error) {
	key := c.Name
	if c.Personal {
		key += "/" + user
	}
	r.mu.Lock()
	got, ok := r.counted[key]
	at := r.lastLocked()
	fresh := ok && !slices.ContainsFunc(r.entries, func(e entry) bool {
		return e.seq > got.at && (e.gap || slices.Contains(c.Kinds, e.kind))
	})
	r.mu.Unlock()
	if fresh {
		return got.value, nil
	}
	n, err := c.Count(ctx, r.tenant, user)
	if err != nil {
		return nil, err
	}
	value, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted[key] = counted{at, value}
	return value, nil
}

// idOf returns the id of a frame at a position.
func (s *Service) idOf(seq int64) string { return strconv.FormatInt(seq, 10) + "-" + s.node }

var errUnknownID = errors.New("live: the id is none of this stream's")

// positionOf returns the position that a Last-Event-ID names.
func (s *Service) positionOf(id string) (int64, error) {
	digits, node := id, ""
	if i := slices.Index([]byte(id), '-'); i >= 0 {
		digits, node = id[:i], id[i+1:]
	}
	seq, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || seq < 0 || len(id) > 64 {
		return 0, errUnknownID
	}
	if node != s.node {
		seq = max(0, seq-skew.Microseconds())
	}
	return seq, nil
}
