package event

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Follower reads streams: first the stored events, then the live ones.
type Follower struct {
	Log Log
	Hub *Hub
	// Complete makes a slow reader late rather than incomplete: events that its
	// queue dropped are read from the log, and there is no "gap" event.
	Complete bool
}

const (
	readPage   = 500
	largePage  = 32                    // of events that may be large: they did not fit the queue
	retryWait  = 25 * time.Millisecond // drafts are flushed every 50 ms
	maxRetries = 80
	minPoll    = 2 * time.Second // shortest silence after which a reader polls the log for lost batches
	maxPoll    = time.Minute     // longest such silence
	gapName    = "gap"
	beginning  = 0
)

// Follow returns the events of a stream with a seq greater than after: first the
// stored ones, then the live ones as they happen, each exactly once and in
// order, until ctx ends or the consumer stops. A synthetic event "gap" {dropped}
// stands where droppable events are missing because this reader was slow. If
// after lies beyond the stream's end, the stream is replayed from the beginning,
// after a gap. The error is ErrSlow or comes from the log.
func (f Follower) Follow(ctx context.Context, tenant, stream string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		sub := f.Hub.Subscribe(stream)
		defer sub.Close()
		r := &reader{Follower: f, ctx: ctx, tenant: tenant, stream: stream, last: after, yield: yield}
		if after > beginning && !r.checkCursor(after) {
			return
		}
		if !r.catchUp() {
			return
		}
		r.live(sub)
	}
}

// FollowNew is like Follow, for a stream that did not exist when sub was opened:
// sub receives its first event, so the log need not be read.
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
	last           int64 // seq of the last event that was yielded or is pending
	pending        Event // held back until it is known whether another event follows it at once
	hasPending     bool
	yield          func(Event, error) bool
}

// checkCursor rewinds the reader to the beginning if the caller's cursor lies
// beyond everything that is stored or about to be: it cannot have come from this
// stream. It reports whether to go on reading.
func (r *reader) checkCursor(after int64) bool {
	for try := range maxRetries {
		got, err := r.read(after-1, 1)
		if err != nil {
			return r.fail(err)
		}
		if len(got) > 0 {
			return true
		}
		// A live chunk has its seq before it is stored: wait a moment for the flush.
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

// read reads the log. Callers flush the pending event before.
func (r *reader) read(after int64, limit int) (got []Event, err error) {
	err = OnOwnStack(r.ctx, func() (err error) {
		got, err = r.Log.Read(r.ctx, r.tenant, r.stream, after, limit)
		return err
	})
	return got, err
}

// catchUp yields the events that the log has after last.
func (r *reader) catchUp() bool { return r.catchUpBy(readPage) }

func (r *reader) catchUpBy(page int) bool {
	for {
		if !r.flush() {
			return false
		}
		got, err := r.read(r.last, page)
		if err != nil {
			return r.fail(err)
		}
		for _, e := range got {
			if !r.emit(e) {
				return false
			}
		}
		if len(got) < page {
			return true
		}
	}
}

// live yields events as they are published. After a silence it polls the log, in
// case a batch was lost; Hub.NextPoll says how long the silence may last.
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

// pollLog catches up after a silence, unless another reader of the stream on
// this node has just polled the log.
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

// drain yields what the subscription has queued.
func (r *reader) drain(sub *Subscription) bool {
	batches, dropped, err := sub.Drain()
	if err != nil {
		return r.fail(err)
	}
	gap := dropped > 0 && !r.Complete
	if gap && !r.emitGap(dropped) {
		return false
	}
	for _, b := range batches {
		if len(b.Events) == 0 {
			if !r.catchUpBy(largePage) {
				return false
			}
			continue
		}
		if !r.batch(b, gap) {
			return false
		}
	}
	return true
}

// batch yields a live batch. It first reads events that are missing before the
// batch from the log, unless the reader was sent a gap for them.
func (r *reader) batch(b Batch, gap bool) bool {
	if b.Prev > r.last && !gap && !r.fill(b.Prev) {
		return false
	}
	for _, e := range b.Events {
		if e.Seq > r.last && !r.emit(e) {
			return false
		}
	}
	return true
}

// fill reads the log until it has everything up to a seq. Events that are still
// missing after two seconds were lost with their writer before they were stored.
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

// emit yields the pending event and makes e the pending one, until the next
// emit or flush.
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

// flush yields the pending event. It is called before the reader waits for anything.
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
