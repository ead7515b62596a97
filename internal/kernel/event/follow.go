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
	// Complete makes the reader slow rather than incomplete: what its queue had to
	// drop is read from the log, and there is no event "gap".
	Complete bool
}

const (
	readPage   = 500
	retryWait  = 25 * time.Millisecond // drafts are flushed every 50 ms
	maxRetries = 80
	minPoll    = 2 * time.Second // how long a lost live batch can go unnoticed, at least
	maxPoll    = time.Minute     // and at most
	gapName    = "gap"
	beginning  = 0
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
		if after > beginning && !r.validCursor(after) {
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
	last           int64 // seq of the last event that was given, or is held
	pending        Event // the next one to give; the one after it decides whether more follow
	hasPending     bool
	yield          func(Event, error) bool
}

// validCursor rewinds the reader where the caller's cursor is beyond everything that
// is stored or under way: it cannot have come from this stream.
func (r *reader) validCursor(after int64) bool {
	for try := range maxRetries {
		got, err := r.read(after-1, 1)
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
		if !r.sleep(retryWait) {
			return false
		}
	}
	r.last = beginning
	return r.emit(Event{Name: gapName, At: time.Now().UTC(), Data: jsontext.Value(`{"dropped":0}`)})
}

// read looks into the log. Nothing waits for it that could be given.
func (r *reader) read(after int64, limit int) (got []Event, err error) {
	err = OnOwnStack(r.ctx, func() (err error) {
		got, err = r.Log.Read(r.ctx, r.tenant, r.stream, after, limit)
		return err
	})
	return got, err
}

// catchUp gives what the log has beyond last.
func (r *reader) catchUp() bool {
	for {
		if !r.flush() {
			return false
		}
		got, err := r.read(r.last, readPage)
		if err != nil {
			return r.fail(err)
		}
		for _, e := range got {
			if !r.emit(e) {
				return false
			}
		}
		if len(got) < readPage {
			return true
		}
	}
}

// live gives what happens. The log is looked into after a silence, in case
// that a batch was lost; see Patience.
func (r *reader) live(sub *Subscription) {
	wait := minPoll
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for r.flush() {
		select {
		case <-r.ctx.Done():
			return
		case <-timer.C:
			before := r.last
			if !r.pollLog(sub, wait) {
				return
			}
			if wait = r.Hub.NextPoll(wait, minPoll); r.last != before {
				wait = minPoll
			}
		case <-sub.Ready():
			if !r.drain(sub) {
				return
			}
			wait = minPoll
		}
		timer.Reset(wait)
	}
}

// pollLog catches up after a silence, unless another reader of the stream
// does so at this moment.
func (r *reader) pollLog(sub *Subscription, silence time.Duration) bool {
	before := r.last
	if !sub.claimLogRead(before, silence/2) {
		return true
	}
	if !r.catchUp() {
		return false
	}
	if r.last != before {
		sub.notifyReaders()
	}
	return true
}

// drain gives what has gathered.
func (r *reader) drain(sub *Subscription) bool {
	batches, dropped, err := sub.Drain()
	if err != nil {
		return r.fail(err)
	}
	holes := dropped > 0 && !r.Complete
	if holes && !r.emitGap(dropped) {
		return false
	}
	for _, b := range batches {
		if len(b.Events) == 0 {
			if !r.catchUp() {
				return false
			}
			continue
		}
		if !r.batch(b, holes) {
			return false
		}
	}
	return true
}

// batch gives a live batch, after what the log has before it unless that may
// stay missing.
func (r *reader) batch(b Batch, holes bool) bool {
	if b.Prev > r.last && !holes && !r.fill(b.Prev) {
		return false
	}
	for _, e := range b.Events {
		if e.Seq > r.last && !r.emit(e) {
			return false
		}
	}
	return true
}

// fill reads the log until it has everything up to a seq. What is missing
// after two seconds died with its writer before it was stored.
func (r *reader) fill(upto int64) bool {
	for range maxRetries {
		if !r.catchUp() {
			return false
		}
		if r.last >= upto {
			return true
		}
		if !r.sleep(retryWait) {
			return false
		}
	}
	return true
}

// emit gives the event before this one, which waits for the next or a flush.
func (r *reader) emit(e Event) bool {
	if r.hasPending {
		r.pending.More = true
		if !r.yield(r.pending, nil) {
			return false
		}
	}
	r.pending, r.hasPending = e, true
	if e.Seq > 0 {
		r.last = e.Seq
	}
	return true
}

// flush gives what is held, before the reader waits for anything.
func (r *reader) flush() bool {
	if !r.hasPending {
		return true
	}
	e := r.pending
	r.pending, r.hasPending = Event{}, false
	return r.yield(e, nil)
}

func (r *reader) emitGap(dropped int) bool {
	return r.emit(Event{Name: gapName, At: time.Now().UTC(), Data: jsontext.Value(`{"dropped":` + strconv.Itoa(dropped) + `}`)})
}

func (r *reader) fail(err error) bool {
	if r.ctx.Err() == nil && r.flush() {
		r.yield(Event{}, err)
	}
	return false
}

func (r *reader) sleep(d time.Duration) bool {
	if !r.flush() {
		return false
	}
	select {
	case <-r.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
