package modeltest

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// send answers a call. It ends early where the caller goes away.
func (r *reply) send(w http.ResponseWriter, req *http.Request, stream bool) {
	if r.HangFirst {
		<-req.Context().Done()
		return
	}
	wait := r.TTFT
	if !stream {
		wait += time.Duration(len(r.events)) * r.Delay
	}
	if !pause(req, wait) {
		return
	}
	head := w.Header()
	if r.RetryAfter != "" {
		head["Retry-After"] = []string{r.RetryAfter}
	}
	contentType := "application/json"
	if stream && r.joined != nil || stream && r.Raw != nil {
		contentType = "text/event-stream"
	}
	if r.ContentType != "" {
		contentType = r.ContentType
	}
	head["Content-Type"] = []string{contentType}
	status := r.Status
	if status == 0 {
		status = http.StatusOK
	}
	switch {
	case r.Raw != nil:
		w.WriteHeader(status)
		w.Write(r.Raw)
	case stream && status == http.StatusOK:
		r.stream(w, req)
	case r.Filler > 0:
		i := bytes.Index(r.plain, []byte(`"content":"`)) + len(`"content":"`)
		w.Write(r.plain[:i])
		fill(r.Filler, func(piece string) error { _, err := w.Write([]byte(piece)); return err })
		w.Write(r.plain[i:])
	default:
		head["Content-Length"] = []string{strconv.Itoa(len(r.plain))}
		w.WriteHeader(status)
		w.Write(r.plain)
	}
}

// stream sends the events, all at once where nothing asks for steps.
func (r *reply) stream(w http.ResponseWriter, req *http.Request) {
	if r.Delay == 0 && r.HangAfter == 0 && r.BreakAfter == 0 && r.EndAfter == 0 && r.Filler == 0 {
		w.Write(r.joined)
		return
	}
	flush := http.NewResponseController(w).Flush
	for i, event := range r.events {
		if i > 0 && !pause(req, r.Delay) {
			return
		}
		if _, err := w.Write(event); err != nil || flush() != nil {
			return
		}
		switch i { // the first event is the role, so i counts the pieces
		case 0:
		case r.EndAfter:
			return
		case r.HangAfter:
			<-req.Context().Done()
			return
		case r.BreakAfter:
			panic(http.ErrAbortHandler)
		}
	}
	if err := fill(r.Filler, func(piece string) error {
		_, err := w.Write(chunk(object{"content": piece}, nil))
		return err
	}); err != nil {
		return
	}
	for _, event := range r.ending {
		w.Write(event)
	}
}

// fill sends n bytes of text in pieces of 64 KiB.
func fill(n int, send func(string) error) error {
	const size = 64 << 10
	piece := strings.Repeat("filler ", size/7+1)[:size]
	for n > 0 {
		if err := send(piece); err != nil {
			return err
		}
		n -= size
	}
	return nil
}

// pause waits; false where the caller went away meanwhile.
func pause(req *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-req.Context().Done():
		return false
	}
}
