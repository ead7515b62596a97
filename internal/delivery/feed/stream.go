package feed

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/kernel/event"
)

const (
	// pace is the least time between two looks at the feed for a stream.
	pace = time.Second
	// resync is how often a stream looks at least: hints can be lost.
	resync = 5 * time.Second
	// late is how much later than its time an entry may be committed and still be sent.
	late = 5 * time.Second
	// maxMissed bounds what a stream sends at once.
	maxMissed = 200
)

type streamIn struct {
	narrowing

	Limit       string `query:"limit" doc:"How many entries from before are sent first, up to 200; none if it is left out."`
	LastEventID string `header:"Last-Event-ID" query:"last_event_id"`
}

// follower is one open stream.
type follower struct {
	s     *Service
	ctx   context.Context
	who   authz.Caller
	query Query
	first Position             // where the stream began: nothing older is sent
	at    Position             // the newest that was sent
	sent  map[string]time.Time // lately: what was committed late comes in between
	yield func(route.Frame, error) bool
}

func (s *Service) follow(ctx context.Context, who authz.Caller, in *streamIn) (iter.Seq2[route.Frame, error], error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	at, known := parsePosition(in.LastEventID)
	known = known && !at.At.After(now)
	if !known {
		at = Position{At: now}
	}
	before, _ := strconv.Atoi(in.Limit)
	return func(yield func(route.Frame, error) bool) {
		f := &follower{s: s, ctx: ctx, who: who, query: q, first: at, at: at, sent: map[string]time.Time{}, yield: yield}
		sub := s.Hub.Subscribe(s.Stream(who.TenantID))
		defer sub.Close()
		if !f.send("ready", at.String(), readyData{"ready", at.String(), now}) {
			return
		}
		if in.LastEventID != "" && !known && !f.gap("the id is unknown") {
			return
		}
		if f.past(min(before, maxMissed), known) && f.look() {
			f.run(sub)
		}
	}, nil
}

// past sends entries from before the stream began, oldest first.
func (f *follower) past(n int, resumed bool) bool {
	if n <= 0 || resumed {
		return true
	}
	q := f.query
	q.Limit = n
	var c *chapter
	err := event.OnOwnStack(f.ctx, func() (err error) {
		c, err = f.s.read(f.ctx, f.who.TenantID, q, f.at)
		return err
	})
	return err == nil && f.sendAll(c.entries)
}

// run sends what happens until the client leaves.
func (f *follower) run(sub *event.Subscription) {
	wait := resync
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-timer.C:
			wait = f.s.Hub.NextPoll(wait, resync)
		case <-sub.Ready():
			_, _, _ = sub.Drain() // what changed is read from the feed
			wait = resync
		}
		if !f.look() {
			return
		}
		select {
		case <-f.ctx.Done():
			return
		case <-time.After(pace):
		}
		timer.Reset(wait)
	}
}

// look sends what is new. It reports whether the stream goes on.
func (f *follower) look() bool {
	q := f.query
	q.Limit = maxMissed
	if q.Since = f.at.At.Add(-late); q.Since.Before(f.first.At) {
		q.Since = f.first.At
	}
	var c *chapter
	err := event.OnOwnStack(f.ctx, func() (err error) {
		c, err = f.s.read(f.ctx, f.who.TenantID, q, Position{})
		return err
	})
	if err != nil {
		return f.ctx.Err() == nil // the next look tries again
	}
	if c.more && !f.gap("there are more than 200 new entries, or too many to look through") {
		return false
	}
	fresh := slices.DeleteFunc(c.entries, func(e Entry) bool {
		_, known := f.sent[e.ID]
		return known || e.position().compare(f.first) <= 0
	})
	for id, at := range f.sent {
		if at.Before(q.Since) {
			delete(f.sent, id)
		}
	}
	return f.sendAll(fresh)
}

// sendAll sends entries that are ordered newest first, oldest first.
func (f *follower) sendAll(entries []Entry) bool {
	for i := range slices.Backward(entries) {
		e := &entries[i]
		if e.position().compare(f.at) > 0 {
			f.at = e.position()
		}
		f.sent[e.ID] = e.At
		if !f.send("entry", f.at.String(), entryData{"entry", *e}) {
			return false
		}
	}
	return true
}

func (f *follower) gap(reason string) bool { return f.send("gap", "", gapData{"gap", reason}) }

func (f *follower) send(name, id string, data any) bool {
	text, err := json.Marshal(data)
	return f.yield(route.Frame{Name: name, ID: id, Data: text}, err) && err == nil
}
