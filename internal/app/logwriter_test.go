package app

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// writes counts writes and keeps what was written.
type writes struct {
	mu sync.Mutex
	n  int
	bytes.Buffer
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	return w.Buffer.Write(p)
}

func (w *writes) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

func TestLogLinesAreJoinedAndNeverLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out writes
		l := newLogWriter(&out)
		for range 3 {
			_, _ = l.Write([]byte("line\n"))
		}
		if n := out.count(); n != 0 {
			t.Errorf("%d writes at once", n)
		}
		time.Sleep(logDelay)
		synctest.Wait()
		if got := out.String(); out.count() != 1 || got != "line\nline\nline\n" {
			t.Errorf("%d writes: %q", out.count(), got)
		}
		_, _ = l.Write([]byte(strings.Repeat("x", logBuffer)))
		if out.count() != 2 {
			t.Error("a full buffer waits")
		}
		_, _ = l.Write([]byte("last\n"))
		l.flush()
		if !strings.HasSuffix(out.String(), "last\n") {
			t.Error("the last line is lost")
		}
	})
}
