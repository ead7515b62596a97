package modelcall

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrIdle is the cause of an attempt that was cancelled because the endpoint sent
// nothing for too long.
var ErrIdle = errors.New("modelcall: the endpoint was silent for too long")

// ErrDeadline is the cause of an attempt that was cancelled although the endpoint kept
// sending.
var ErrDeadline = errors.New("modelcall: the answer takes too long")

// Watchdog cancels an attempt that is not armed again in time, or that reaches its
// end.
type Watchdog struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
	end    time.Time // zero: none
}

// NewWatchdog returns a watchdog of an attempt that may take that long; 0: any time.
func NewWatchdog(cancel context.CancelCauseFunc, all time.Duration) *Watchdog {
	w := &Watchdog{cancel: cancel}
	if all > 0 {
		w.end = time.Now().Add(all)
	}
	return w
}

// Arm bounds the time until the next call of Arm or Stop.
func (w *Watchdog) Arm(d time.Duration) {
	if !w.end.IsZero() {
		d = min(d, time.Until(w.end))
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.expire)
		return
	}
	w.timer.Reset(d)
}

func (w *Watchdog) expire() {
	if !w.end.IsZero() && !time.Now().Before(w.end) {
		w.cancel(ErrDeadline)
		return
	}
	w.cancel(ErrIdle)
}

// Stop ends the bounds.
func (w *Watchdog) Stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// Reader bounds the time of each read. After LimitRest, it bounds that of all
// further reads together.
type Reader struct {
	Size    int64  // of the whole body; negative: unknown
	Pause   func() // if set, called before each read, which may wait
	src     io.Reader
	watch   *Watchdog
	idle    time.Duration
	limited bool
}

// NewReader returns a reader of a body of unknown size.
func NewReader(src io.Reader, watch *Watchdog, idle time.Duration) *Reader {
	return &Reader{Size: -1, src: src, watch: watch, idle: idle}
}

// With returns the reader of the same attempt from a source that reads from r.
func (r *Reader) With(src io.Reader) *Reader {
	return &Reader{Size: r.Size, src: src, watch: r.watch, idle: r.idle, limited: r.limited}
}

// Read implements io.Reader.
func (r *Reader) Read(b []byte) (int, error) {
	if r.Pause != nil {
		r.Pause()
	}
	if !r.limited {
		r.watch.Arm(r.idle)
	}
	return r.src.Read(b)
}

// LimitRest bounds the time of all further reads together.
func (r *Reader) LimitRest(d time.Duration) {
	r.limited = true
	r.watch.Arm(d)
}

// Limited reports whether the time of all further reads is bounded.
func (r *Reader) Limited() bool { return r.limited }
