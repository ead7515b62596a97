package app

import (
	"io"
	"sync"
	"time"
)

// A log line waits this long, or until so much has come together, for others
// to be written with it: a write each would cost a busy server a system call
// for every request.
const (
	logDelay  = 50 * time.Millisecond
	logBuffer = 32 << 10
)

// logWriter joins log lines into fewer writes.
type logWriter struct {
	mu    sync.Mutex
	w     io.Writer
	buf   []byte
	timer *time.Timer
}

func newLogWriter(w io.Writer) *logWriter {
	l := &logWriter{w: w}
	l.timer = time.AfterFunc(time.Hour, l.flush)
	l.timer.Stop()
	return l
}

// Write implements io.Writer. It never fails, because a logger cannot handle it.
func (l *logWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buf) == 0 {
		l.timer.Reset(logDelay)
	}
	if l.buf = append(l.buf, p...); len(l.buf) >= logBuffer {
		l.empty()
	}
	return len(p), nil
}

func (l *logWriter) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.empty()
}

func (l *logWriter) empty() {
	if len(l.buf) > 0 {
		_, _ = l.w.Write(l.buf)
		l.buf = l.buf[:0]
	}
}
