package httpapi

import (
	"iter"
	"net/http"
	"reflect"

	"agentd/internal/base/route"
)

const linesMedia = "application/x-ndjson"

var linesType = reflect.TypeFor[route.Lines]()

// serveLines answers with lines as they come.
func (x *exchange) serveLines(r *http.Request, lines route.Lines) error {
	return x.servePieces(r, linesMedia, func(yield func([]byte, error) bool) {
		for line, err := range lines {
			if !yield(line, err) || err == nil && !yield(lineEnd, nil) {
				return
			}
		}
	})
}

var lineEnd = []byte("\n")

// servePieces answers with a body that comes in pieces. The answer is cut off where
// they fail, so that the client does not take a part for the whole.
func (x *exchange) servePieces(r *http.Request, media string, pieces iter.Seq2[[]byte, error]) error {
	begin := func() {
		h := x.Header()
		h["Content-Type"] = contentTypes[media]
		h["Cache-Control"] = noStore
		h["X-Accel-Buffering"] = notBuffered
		x.WriteHeader(http.StatusOK)
	}
	if r.Method == http.MethodHead {
		begin()
		return nil
	}
	var buf []byte
	for piece, err := range pieces {
		if err != nil {
			return err
		}
		if buf = append(buf, piece...); len(buf) < copySize {
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
