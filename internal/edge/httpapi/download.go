package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/media"
	"agentd/internal/base/route"
)

var (
	revalidate = []string{"private, no-cache"}
	byteRanges = []string{"bytes"}

	// Content that somebody uploaded runs no script, loads nothing and sends
	// nothing, whatever it is, and is nobody's origin.
	sandboxed = []string{"sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'"}
	// Browsers show no PDF in a sandbox; their viewers are one.
	unboxed = []string{"default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'"}
)

// serveContent answers bytes: whole, one range of them, or 304 to a client
// that has them. A range that makes no sense, or several, give the whole.
func (x *exchange) serveContent(r *http.Request, c *route.Content) error {
	defer c.Body.Close()
	tag := `"` + c.ETag + `"`
	if header := r.Header.Get("If-None-Match"); header != "" && lists(header, tag) {
		x.contentHeaders(c, tag)
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	first, length, status := int64(0), c.Size, http.StatusOK
	if header := r.Header.Get("Range"); header != "" && currentRange(r, tag) {
		from, n, kind := parseRange(header, c.Size)
		switch kind {
		case rangeBeyond:
			x.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", c.Size))
			return wire(http.StatusRequestedRangeNotSatisfiable, "RANGE_NOT_SATISFIABLE", "The content ends before the range that was asked for.")
		case rangeOne:
			first, length, status = from, n, http.StatusPartialContent
		}
	}
	if _, err := c.Body.Seek(first, io.SeekStart); err != nil {
		return err
	}
	// The first bytes come before the header, so that what cannot be read is a
	// refusal and no broken answer.
	start := make([]byte, min(length, copySize))
	if r.Method != http.MethodHead {
		if _, err := io.ReadFull(c.Body, start); err != nil {
			return err
		}
	}
	h := x.Header()
	x.contentHeaders(c, tag)
	h["Content-Security-Policy"] = sandboxed
	if media.Base(c.Type) == "application/pdf" {
		h["Content-Security-Policy"] = unboxed
	}
	h.Set("Content-Type", c.Type)
	h.Set("Content-Disposition", media.Disposition(c.Inline, c.Name))
	h.Set("Content-Length", strconv.FormatInt(length, 10))
	if status == http.StatusPartialContent {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, first+length-1, c.Size))
	}
	x.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	if _, err := x.Write(start); err != nil {
		return nil // the client is gone, which the server sees
	}
	return x.copy(c.Body, length-int64(len(start)))
}

// contentHeaders are those of an answer with the content, and of one that says
// that it is the same still.
func (x *exchange) contentHeaders(c *route.Content, tag string) {
	h := x.Header()
	h["Etag"] = []string{tag}
	h["Last-Modified"] = []string{c.Time.UTC().Format(http.TimeFormat)}
	h["Accept-Ranges"] = byteRanges
	h["Cache-Control"] = revalidate
}

const copySize = 64 << 10

// copy sends n more bytes. What cannot be read cuts the connection, so that
// nobody takes a part for the whole.
func (x *exchange) copy(from io.Reader, n int64) error {
	buf := make([]byte, min(n, copySize))
	for n > 0 {
		p := buf[:min(n, copySize)]
		if _, err := io.ReadFull(from, p); err != nil {
			return fault.From(err)
		}
		if _, err := x.Write(p); err != nil {
			return nil // the client is gone, which the server sees
		}
		n -= int64(len(p))
	}
	return nil
}

// lists says whether a header of entity tags has a tag, or takes any.
func lists(header, tag string) bool {
	for t := range strings.SplitSeq(header, ",") {
		t = strings.TrimSpace(t)
		if t == "*" || strings.TrimPrefix(t, "W/") == tag {
			return true
		}
	}
	return false
}

// currentRange says whether the client's ranges are of what is there now.
func currentRange(r *http.Request, tag string) bool {
	header := r.Header.Get("If-Range")
	return header == "" || header == tag
}

type rangeKind int

const (
	rangeNone   rangeKind = iota // none, several or nonsense: the whole is sent
	rangeOne                     // from and n hold
	rangeBeyond                  // nothing of it is there
)

// parseRange reads a Range header: bytes=a-b, bytes=a- or bytes=-n.
func parseRange(header string, size int64) (from, n int64, kind rangeKind) {
	spec, ok := strings.CutPrefix(header, "bytes=")
	if !ok {
		return 0, 0, rangeNone
	}
	a, b, ok := strings.Cut(strings.TrimSpace(spec), "-")
	start, startOK := digits(a)
	end, endOK := digits(b)
	switch {
	case !ok, a != "" && !startOK, b != "" && !endOK, a == "" && b == "", a != "" && b != "" && end < start:
		return 0, 0, rangeNone
	case a == "" && (end == 0 || size == 0), a != "" && start >= size:
		return 0, 0, rangeBeyond
	case a == "":
		start = max(0, size-end)
		return start, size - start, rangeOne
	case b == "" || end >= size:
		end = size - 1
	}
	return start, end - start + 1, rangeOne
}

// digits reads a number that has no sign.
func digits(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		n = 1<<63 - 1 // more than any content has
	}
	return n, true
}
