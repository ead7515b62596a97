package openaiclient

import (
	"context"
	"errors"
	"io"
	"time"
)

// errIdle is the cause of an attempt that was cancelled because the endpoint sent
// nothing for too long.
var errIdle = errors.New("openaiclient: the endpoint was silent for too long")

// errDeadline is the cause of an attempt that was cancelled although the endpoint kept
// sending.
var errDeadline = errors.New("openaiclient: the answer takes too long")

// watchdog cancels an attempt that is not armed again in time, or that reaches its
// end.
type watchdog struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
	end    time.Time // zero: none
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

// timedReader bounds the time of each read. After limitRest, it bounds that of all
// further reads together.
type timedReader struct {
	src     io.Reader
	size    int64 // of the whole body; negative: unknown
	watch   *watchdog
	idle    time.Duration
	pause   func() // if set, called before each read, which may wait
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
