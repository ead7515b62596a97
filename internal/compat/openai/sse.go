package openai

import (
	"bufio"
	"errors"
	"net/http"
	"sync"
	"time"
)

// sse writes an event stream whose frames are rendered already. Writes are
// buffered until flush; a client that does not take them in time is cut off.
type sse struct {
	mu      sync.Mutex
	w       *bufio.Writer
	rc      *http.ResponseController
	timeout time.Duration
	dirty   bool
	err     error
	beat    *time.Timer
}

var errClosed = errors.New("openai: the stream is closed")

func newSSE(w http.ResponseWriter, timeout time.Duration) *sse {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	return &sse{w: bufio.NewWriterSize(w, 4<<10), rc: http.NewResponseController(w), timeout: timeout}
}

func (s *sse) write(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		_, s.err = s.w.Write(b)
		s.dirty = true
	}
}

func (s *sse) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.dirty {
		return s.err
	}
	s.dirty = false
	if s.err = s.rc.SetWriteDeadline(time.Now().Add(s.timeout)); s.err != nil {
		return s.err
	}
	if s.err = s.w.Flush(); s.err == nil {
		s.err = s.rc.Flush()
	}
	return s.err
}

// heartbeat keeps proxies from closing a stream on which the model thinks. It
// arms a timer, not a goroutine: most streams end before it fires.
func (s *sse) heartbeat(every time.Duration) {
	if every == 0 {
		every = 15 * time.Second
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat = time.AfterFunc(every, func() {
		s.write([]byte(": alive\n\n"))
		if s.flush() == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.err == nil {
				s.beat.Reset(every)
			}
		}
	})
}

// close makes sure that nothing is written any more: the handler returns.
func (s *sse) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errClosed
	s.beat.Stop()
}
