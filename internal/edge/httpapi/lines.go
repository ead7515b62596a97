package httpapi

import (
	"net/http"
	"reflect"

	"agentd/internal/base/route"
)

const linesMedia = "application/x-ndjson"

var (
	linesType        = reflect.TypeFor[route.Lines]()
	linesContentType = []string{linesMedia}
)

// serveLines answers with lines as they come. The answer is cut off where they
// fail, so that the client does not take a part for the whole.
func (x *exchange) serveLines(r *http.Request, lines route.Lines) error {
	begin := func() {
		h := x.Header()
		h["Content-Type"] = linesContentType
		h["Cache-Control"] = noStore
		h["X-Accel-Buffering"] = notBuffered
		x.WriteHeader(http.StatusOK)
	}
	if r.Method == http.MethodHead {
		begin()
		return nil
	}
	var buf []byte
	for line, err := range lines {
		if err != nil {
			return err
		}
		buf = append(append(buf, line...), '\n')
		if len(buf) < copySize {
			continue
		}
		if x.status == 0 {
			begin()
		}
		if _, err := x.Write(buf); err != nil {
			return nil // the client left, which net/http notices
		}
		buf = buf[:0]
	}
	if x.status == 0 {
		begin()
	}
	_, _ = x.Write(buf) // the same
	return nil
}
