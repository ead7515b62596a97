package openaiclient

import (
	"context"
	"errors"
	"io"
	"time"
)

// errIdle is the cause of an attempt that was given up because the endpoint
// sent nothing for too long.
var errIdle = errors.New("modelwire: the endpoint was silent for too long")

// errDeadline is the cause of an attempt that was given up although the endpoint
// kept sending.
var errDeadline = errors.New("modelwire: the answer takes too long")

// watchdog cancels an attempt unless it is armed anew in time, and at its end
// in any case.
type watchdog struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
	end    time.Time // none: zero
}

func newWatchdog(cancel context.CancelCauseFunc) *watchdog { return &watchdog{cancel: cancel} }

func (w *watchdog) arm(d time.Duration) {
	if !w.end.IsZero() {
		d = min(d, time.Until(w.end))
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.expire)
		return
	}
	w.timer.Reset(d)
}

func (w *watchdog) expire() {
	if !w.end.IsZero() && !time.Now().Before(w.end) {
		w.cancel(errDeadline)
		return
	}
	w.cancel(errIdle)
}

func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// timedReader waits a bounded time for each read. Once hurry was called, all
// further reads together may take that long.
type timedReader struct {
	src     io.Reader
	size    int64 // of all of it, as far as was said; negative: it was not
	watch   *watchdog
	idle    time.Duration
	pause   func() // called before each read, which may wait; nil: nobody wants to know
	limited bool
}

func (r *timedReader) Read(b []byte) (int, error) {
	if r.pause != nil {
		r.pause()
	}
	if !r.limited {
		r.watch.arm(r.idle)
	}
	return r.src.Read(b)
}

func (r *timedReader) limitRest(d time.Duration) {
	r.limited = true
	r.watch.arm(d)
}
