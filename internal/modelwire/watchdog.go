package modelwire

import (
	"context"
	"errors"
	"io"
	"time"
)

// errSilent is the cause of an attempt that was given up because the endpoint
// sent nothing for too long.
var errSilent = errors.New("modelwire: the endpoint was silent for too long")

// watchdog cancels an attempt unless it is armed anew in time.
type watchdog struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func newWatchdog(cancel context.CancelCauseFunc) *watchdog { return &watchdog{cancel: cancel} }

func (w *watchdog) arm(d time.Duration) {
	if w.timer == nil {
		w.timer = time.AfterFunc(d, func() { w.cancel(errSilent) })
		return
	}
	w.timer.Reset(d)
}

func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// patientReader waits a bounded time for each read. Once hurry was called, all
// further reads together may take that long.
type patientReader struct {
	src     io.Reader
	watch   *watchdog
	idle    time.Duration
	hurried bool
}

func (r *patientReader) Read(b []byte) (int, error) {
	if !r.hurried {
		r.watch.arm(r.idle)
	}
	return r.src.Read(b)
}

func (r *patientReader) hurry(d time.Duration) {
	r.hurried = true
	r.watch.arm(d)
}
