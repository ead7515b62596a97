package app

import (
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
	strings.Builder
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	return w.Builder.Write(p)
}

func (w *writes) seen() (int, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n, w.String()
}

func TestLogLinesAreJoinedAndNeverLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out writes
		l := newLogWriter(&out)
		for range 3 {
			_, _ = l.Write([]byte("line\n"))
		}
		if n, _ := out.seen(); n != 0 {
			t.Errorf("%d writes at once", n)
		}
		time.Sleep(logDelay)
		synctest.Wait()
		if n, got := out.seen(); n != 1 || got != "line\nline\nline\n" {
			t.Errorf("%d writes: %q", n, got)
		}
		_, _ = l.Write([]byte(strings.Repeat("x", logBuffer)))
		if n, _ := out.seen(); n != 2 {
			t.Error("a full buffer waits")
		}
		_, _ = l.Write([]byte("last\n"))
		l.flush()
		if _, got := out.seen(); !strings.HasSuffix(got, "last\n") {
			t.Error("the last line is lost")
		}
	})
}
