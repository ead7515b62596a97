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

	// Uploaded content runs no script, loads and sends nothing, and has an opaque
	// origin.
	sandboxed = []string{
		"sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'",
	}
	// Browsers refuse to show a PDF in a sandbox; their viewers are one themselves.
	unboxed = []string{"default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'"}
)

// serveContent answers with bytes: all, one range of them, or 304 for a client
// that has them. An invalid range, or several, are answered with all bytes.
func (x *exchange) serveContent(r *http.Request, c *route.Content) error {
	defer c.Body.Close()
	tag := `"` + c.ETag + `"`
	if header := r.Header.Get("If-None-Match"); header != "" && etagMatches(header, tag) {
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
			return statusFault(
				http.StatusRequestedRangeNotSatisfiable,
				"RANGE_NOT_SATISFIABLE",
				"The requested range begins after the end of the content.",
			)
		case rangeOne:
			first, length, status = from, n, http.StatusPartialContent
		}
	}
	if _, err := c.Body.Seek(first, io.SeekStart); err != nil {
		return err
	}
	// The first bytes are read before the header is sent, so that a read error is a
	// refusal and not a broken answer.
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
		return nil // the client left, which net/http notices
	}
	return x.copy(c.Body, length-int64(len(start)))
}

// contentHeaders sets the headers that a 200, a 206 and a 304 share.
func (x *exchange) contentHeaders(c *route.Content, tag string) {
	h := x.Header()
	h["Etag"] = []string{tag}
	h["Last-Modified"] = []string{c.Time.UTC().Format(http.TimeFormat)}
	h["Accept-Ranges"] = byteRanges
	h["Cache-Control"] = revalidate
}

const copySize = 64 << 10

// copy sends n more bytes. A read error cuts the connection, so that the client
// does not take a part for the whole.
func (x *exchange) copy(from io.Reader, n int64) error {
	buf := make([]byte, min(n, copySize))
	for n > 0 {
		p := buf[:min(n, copySize)]
		if _, err := io.ReadFull(from, p); err != nil {
			return fault.From(err)
		}
		if _, err := x.Write(p); err != nil {
			return nil // the client left, which net/http notices
		}
		n -= int64(len(p))
	}
	return nil
}

// etagMatches reports whether a header of entity tags contains tag or is "*".
func etagMatches(header, tag string) bool {
	for t := range strings.SplitSeq(header, ",") {
		t = strings.TrimSpace(t)
		if t == "*" || strings.TrimPrefix(t, "W/") == tag {
			return true
		}
	}
	return false
}

// currentRange reports whether the range refers to the current content.
func currentRange(r *http.Request, tag string) bool {
	header := r.Header.Get("If-Range")
	return header == "" || header == tag
}

type rangeKind int

const (
	rangeNone   rangeKind = iota // none, several or invalid: everything is sent
	rangeOne                     // from and n are set
	rangeBeyond                  // not satisfiable
)

// parseRange parses a Range header: bytes=a-b, bytes=a- or bytes=-n.
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

// digits parses a number without a sign.
func digits(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		n = 1<<63 - 1 // too large for an int64, and for any content
	}
	return n, true
}
