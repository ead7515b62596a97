package httpapi

import (
	"net/http/httptest"
	"testing"
	"time"
)

// timed remembers the write deadline that was set.
type timed struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (w *timed) SetWriteDeadline(d time.Time) error {
	w.deadline = d
	return nil
}

func TestSlowHandlerStillMayWrite(t *testing.T) {
	t.Parallel()
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	x := &exchange{w: w, limited: time.Now()}
	_, _ = x.Write([]byte("soon"))
	if !w.deadline.IsZero() {
		t.Error("the server's own deadline was enough")
	}
	x.limited = time.Now().Add(-40 * time.Second)
	_, _ = x.Write([]byte("late"))
	if left := time.Until(w.deadline); left < answerTimeout/2 {
		t.Errorf("%v are left to write", left)
	}
	if w.Body.String() != "soonlate" || x.bytes != 8 || x.status != 200 {
		t.Errorf("%q, %d bytes, status %d", w.Body, x.bytes, x.status)
	}
}
