package live

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
)

const (
	maxFollowed = 20 // runs and sessions that a stream names
	maxFamily   = 60 // with the runs that those start
	// countEvery is the least time between two frames of counts.
	countEvery = time.Second
)

type streamIn struct {
	Kinds       string `query:"kinds" maxLength:"2000" doc:"Kinds of things whose changes are sent, with commas: run, session, approval, notification, mission, evaluation, webhook, agent and the other kinds of resources. Left out: all that you may read. none: none."`
	Follow      string `query:"follow" maxLength:"4000" doc:"Up to 20 runs and sessions whose events are sent too, with commas: run:ID, session:ID. An event's id after an @ resumes after it, and @latest begins with what happens next: run:ID@42. The runs that a followed run starts are followed with it."`
	LastEventID string `header:"Last-Event-ID" query:"last_event_id"`
}

// target is a run or a session that a stream follows.
type target struct{ kind, id, after string }

// reader is one open stream.
type reader struct {
	s       *Service
	ctx     context.Context
	who     authz.Caller
	kinds   map[string]bool // that it is sent
	allowed map[string]bool // that it may read
	follow  []target
	counts  []Counter

	room     *room
	at       int64 // everything up to here was sent, or is not for it
	yield    func(route.Frame, error) bool
	frames   chan route.Frame // of what it follows
	followed map[string]bool
	running  sync.WaitGroup
	dirty    bool
	shown    string    // the counts that were sent last
	countAt  time.Time // when they may be sent next
}

// open answers streamChanges.
func (s *Service) open(ctx context.Context, who authz.Caller, in *streamIn) (iter.Seq2[route.Frame, error], error) {
	r := &reader{s: s, who: who, kinds: map[string]bool{}, allowed: map[string]bool{}, followed: map[string]bool{}}
	if err := r.choose(in.Kinds); err != nil {
		return nil, err
	}
	var err error
	if r.follow, err = parseFollow(in.Follow); err != nil {
		return nil, err
	}
	for _, t := range r.follow {
		if err := s.checkTarget(ctx, who, t); err != nil {
			return nil, err
		}
	}
	for _, c := range s.Counters {
		if who.Check(c.Readers.Role, c.Readers.Scopes...) == nil {
			r.counts = append(r.counts, c)
		}
	}
	return func(yield func(route.Frame, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer r.running.Wait()
		defer cancel()
		r.ctx, r.yield = ctx, yield
		if r.room, err = s.enter(who.TenantID); err != nil {
			return
		}
		defer r.room.leave()
		r.run(in.LastEventID)
	}, nil
}

// choose sets the kinds that are sent. Errors: fault.Invalid for unknown ones,
// MISSING_SCOPE for those that the caller may not read.
func (r *reader) choose(list string) error {
	for _, kind := range r.s.readable(r.who) {
		r.allowed[kind] = true
	}
	switch list {
	case "none":
		return nil
	case "":
		if len(r.allowed) == 0 {
			return fault.New(fault.Forbidden, "MISSING_SCOPE",
				"Your key may read nothing whose changes are sent: it needs a scope such as runs:read.")
		}
		r.kinds = r.allowed
		return nil
	}
	for kind := range strings.SplitSeq(list, ",") {
		kind = strings.TrimSpace(kind)
		src, known := r.s.source(kind)
		if !known {
			return fault.New(fault.Malformed, "INVALID_QUERY",
				"The query parameter kinds names %q, which is no kind; those that you may read are: %s.", kind, strings.Join(r.s.readable(r.who), ", "))
		}
		if err := r.who.Check(src.Readers.Role, src.Readers.Scopes...); err != nil {
			return err
		}
		r.kinds[kind] = true
	}
	return nil
}

func parseFollow(list string) (all []target, err error) {
	if list == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		name, after, _ := strings.Cut(strings.TrimSpace(text), "@")
		kind, id, _ := strings.Cut(name, ":")
		if kind != "run" && kind != "session" || id == "" {
			return nil, fault.New(fault.Malformed, "INVALID_QUERY",
				"The query parameter follow has %q; write run:ID or session:ID, with commas between them.", text)
		}
		if slices.ContainsFunc(all, func(t target) bool { return t.kind == kind && t.id == id }) {
			continue
		}
		if all = append(all, target{kind, id, after}); len(all) > maxFollowed {
			return nil, fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter follow names more than %d runs and sessions.", maxFollowed)
		}
	}
	return all, nil
}

// checkTarget refuses what the caller may not read or does not exist.
func (s *Service) checkTarget(ctx context.Context, who authz.Caller, t target) error {
	if err := who.Check(authz.Viewer, authz.Scope(t.kind+"s:read")); err != nil {
		return err
	}
	if !ident.Valid(t.id) {
		return fault.NewNotFound(t.kind)
	}
	src, known := s.source(t.kind)
	if !known {
		return fault.NewNotFound(t.kind)
	}
	_, _, err := src.Row(ctx, who.TenantID, t.id)
	return err
}

// run sends frames until the client leaves.
func (r *reader) run(lastEventID string) {
	known := r.begin(lastEventID)
	ready := readyData{Event: "ready", LastEventID: r.s.idOf(r.at), Kinds: r.chosen(), Timestamp: r.s.Clock.Now()}
	if !r.send("ready", r.s.idOf(r.at), ready) || !known && !r.gap("the id is unknown or too old") {
		return
	}
	if len(r.follow) > 0 {
		r.frames = make(chan route.Frame)
	}
	for _, t := range r.follow {
		r.start(t)
	}
	r.dirty = true
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		more, ok := r.drain()
		if !ok || !r.sendCounts() {
			return
		}
		if r.dirty {
			timer.Reset(time.Until(r.countAt))
		}
		select {
		case <-r.ctx.Done():
			return
		case <-more:
		case <-timer.C:
		case f := <-r.frames:
			if !r.yield(f, nil) {
				return
			}
		}
	}
}

// begin sets where the stream begins, and reports whether that is where the client was.
func (r *reader) begin(lastEventID string) (known bool) {
	r.at = r.room.last()
	if lastEventID == "" || lastEventID == "latest" {
		return true
	}
	after, err := r.s.positionOf(lastEventID)
	if err != nil {
		return false
	}
	r.room.mu.Lock()
	known = after >= r.room.since
	r.room.mu.Unlock()
	if known {
		r.at = min(after, r.at)
	}
	return known
}

func (r *reader) chosen() []string {
	names := []string{}
	for kind := range r.kinds {
		names = append(names, kind)
	}
	slices.Sort(names)
	return names
}

// drain sends what the room has, and returns a channel that is closed when there is more.
func (r *reader) drain() (more <-chan struct{}, ok bool) {
	for {
		found, more, known := r.room.after(r.at)
		if !known {
			r.at, r.dirty = r.room.last(), true
			if !r.gap("you read too slowly") {
				return nil, false
			}
			continue
		}
		if len(found) == 0 {
			return more, true
		}
		for i := range found {
			if !r.show(&found[i], i < len(found)-1) {
				return nil, false
			}
			r.at = found[i].seq
		}
	}
}

// show sends an entry that is for the caller.
func (r *reader) show(e *entry, more bool) bool {
	if e.gap {
		r.dirty = true
		return r.yield(e.frame, nil)
	}
	if e.user != "" && e.user != r.who.UserID {
		return true
	}
	r.dirty = r.dirty || slices.ContainsFunc(r.counts, func(c Counter) bool { return slices.Contains(c.Kinds, e.kind) })
	if e.kind == "run" && r.followed[e.parent] {
		r.start(target{kind: "run", id: e.id})
	}
	if !r.kinds[e.kind] || e.frame.Data == nil {
		return true
	}
	f := e.frame
	f.More = more
	return r.yield(f, nil)
}

// sendCounts sends the counts if they have changed and it is time.
func (r *reader) sendCounts() bool {
	now := time.Now()
	if !r.dirty || len(r.counts) == 0 || now.Before(r.countAt) {
		r.dirty = r.dirty && len(r.counts) > 0
		return true
	}
	r.dirty, r.countAt = false, now.Add(countEvery)
	out := map[string]jsontext.Value{"event": jsontext.Value(`"counts"`)}
	for _, c := range r.counts {
		n, err := r.room.count(r.ctx, c, r.who.UserID)
		if err != nil {
			if r.ctx.Err() == nil {
				r.s.Log.Warn("the counts of a stream could not be read", "counter", c.Name, "err", err)
				r.dirty = true
			}
			return r.ctx.Err() == nil
		}
		out[c.Name] = n
	}
	data, err := json.Marshal(out, json.Deterministic(true))
	if err != nil || string(data) == r.shown {
		return true
	}
	r.shown = string(data)
	return r.yield(route.Frame{Name: "counts", Data: data}, nil)
}

// start follows a run or a session, until the stream ends.
func (r *reader) start(t target) {
	if r.followed[t.id] || len(r.followed) >= maxFamily {
		return
	}
	r.followed[t.id] = true
	r.running.Go(func() { r.forward(t) })
	if t.kind != "run" {
		return
	}
	children, err := r.s.Runs.Children(r.ctx, r.who.TenantID, t.id)
	if err != nil {
		return // those that go on are found by their next change
	}
	for _, id := range children {
		r.start(target{kind: "run", id: id})
	}
}

// forward hands the frames of a run or a session on. They have no ids of this stream: the
// data has theirs.
func (r *reader) forward(t target) {
	open := r.s.Runs.Stream
	if t.kind == "session" {
		open = r.s.Sessions.Stream
	}
	frames, err := open(r.ctx, r.who.TenantID, t.id, t.after)
	if err != nil {
		return // it was deleted
	}
	for f, err := range frames {
		if err != nil {
			return
		}
		if f.Name == "" { // the end of the other stream
			continue
		}
		f.ID, f.Wire, f.More = "", nil, false
		select {
		case r.frames <- f:
		case <-r.ctx.Done():
			return
		}
	}
}

func (r *reader) gap(reason string) bool {
	return r.send("gap", "", gapData{Event: "gap", Reason: reason})
}

func (r *reader) send(name, id string, data any) bool {
	text, err := json.Marshal(data)
	return r.yield(route.Frame{Name: name, ID: id, Data: text}, err) && err == nil
}
