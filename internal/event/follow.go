package event

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Follower reads streams: what is stored, then what happens.
type Follower struct {
	Log Log
	Hub *Hub
	// Whole makes the reader slow rather than incomplete: what its queue had to
	// drop is read from the log, and there is no event "gap".
	Whole bool
}

const (
	readPage  = 500
	patience  = 25 * time.Millisecond // drafts are flushed every 50 ms
	patienceN = 80
	resync    = 2 * time.Second // how long a lost live batch can go unnoticed
	gapName   = "gap"
	beginning = 0
)

// Follow gives the events of a stream strictly after a seq, first those that
// are stored and then those that happen, without a gap and without a repeat,
// until ctx ends or the consumer stops. A synthetic event "gap" {dropped} says
// that droppable events are missing because this reader was slow; an after
// that lies beyond the stream's end replays from the beginning, after a gap.
// The error is ErrSlow, or the log's.
func (f Follower) Follow(ctx context.Context, tenant, stream string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		sub := f.Hub.Subscribe(stream)
		defer sub.Close()
		r := &reader{Follower: f, ctx: ctx, tenant: tenant, stream: stream, last: after, yield: yield}
		if after > beginning && !r.known(after) {
			return
		}
		if !r.catchUp() {
			return
		}
		r.live(sub)
	}
}

// FollowNew is Follow for a stream that does not exist yet: sub was opened
// before its first event, so that the log need not be asked.
func (f Follower) FollowNew(ctx context.Context, tenant string, sub *Subscription) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		defer sub.Close()
		r := &reader{Follower: f, ctx: ctx, tenant: tenant, stream: sub.stream, yield: yield}
		r.live(sub)
	}
}

type reader struct {
	Follower
	ctx            context.Context
	tenant, stream string
	last           int64 // seq of the last event that was given
	yield          func(Event, error) bool
}

// known rewinds the reader where the caller's cursor is beyond everything that
// is stored or under way: it cannot have come from this stream.
func (r *reader) known(after int64) bool {
	for try := range patienceN {
		got, err := r.Log.Read(r.ctx, r.tenant, r.stream, after-1, 1)
		if err != nil {
			return r.fail(err)
		}
		if len(got) > 0 {
			return true
		}
		// A live chunk has its id before it is stored: give the flush a moment.
		if try == 4 {
			break
		}
		if !r.sleep(patience) {
			return false
		}
	}
	r.last = beginning
	return r.give(Event{Name: gapName, At: time.Now().UTC(), Data: jsontext.Value(`{"dropped":0}`)})
}

// catchUp gives what the log has beyond last.
func (r *reader) catchUp() bool {
	for {
		got, err := r.Log.Read(r.ctx, r.tenant, r.stream, r.last, readPage)
		if err != nil {
			return r.fail(err)
		}
		for _, e := range got {
			if !r.give(e) {
				return false
			}
		}
		if len(got) < readPage {
			return true
		}
	}
}

func (r *reader) live(sub *Subscription) {
	timer := time.NewTimer(resync)
	defer timer.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-timer.C:
			if !r.catchUp() {
				return
			}
		case <-sub.Ready():
			batches, dropped, err := sub.Take()
			if err != nil {
				r.fail(err)
				return
			}
			holes := dropped > 0 && !r.Whole
			if holes && !r.giveGap(dropped) {
				return
			}
			for _, b := range batches {
				if !r.batch(b, holes) {
					return
				}
			}
		}
		timer.Reset(resync)
	}
}

// batch gives a live batch, after what the log has before it unless that may
// stay missing.
func (r *reader) batch(b Batch, holes bool) bool {
	if b.Prev > r.last && !holes && !r.fill(b.Prev) {
		return false
	}
	for _, e := range b.Events {
		if e.Seq > r.last && !r.give(e) {
			return false
		}
	}
	return true
}

// fill reads the log until it has everything up to a seq. What is missing
// after two seconds died with its writer before it was stored.
func (r *reader) fill(upto int64) bool {
	for range patienceN {
		if !r.catchUp() {
			return false
		}
		if r.last >= upto {
			return true
		}
		if !r.sleep(patience) {
			return false
		}
	}
	return true
}

func (r *reader) give(e Event) bool {
	if e.Seq > 0 {
		r.last = e.Seq
	}
	return r.yield(e, nil)
}

func (r *reader) giveGap(dropped int) bool {
	return r.give(Event{Name: gapName, At: time.Now().UTC(), Data: jsontext.Value(`{"dropped":` + strconv.Itoa(dropped) + `}`)})
}

func (r *reader) fail(err error) bool {
	if r.ctx.Err() == nil {
		r.yield(Event{}, err)
	}
	return false
}

func (r *reader) sleep(d time.Duration) bool {
	select {
	case <-r.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
