package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
)

const (
	// MaxBody is the size limit of a JSON body.
	MaxBody = 10 << 20
	// MaxUpload is the size limit of an upload.
	MaxUpload = 50 << 20
	// largeBody is the size above which a body counts against the memory budget.
	// The number of connections bounds smaller ones well enough.
	largeBody = 64 << 10
	// minRate is the lowest rate at which a body may arrive, in bytes per second.
	minRate = 256 << 10
	// budgetWait is how long a large body waits for room in the budget.
	budgetWait = 30 * time.Second
)

// bodies reads request bodies. Large ones share a memory budget, because a body
// takes several times its size while it is decoded.
type bodies struct {
	budget  *semaphore.Weighted
	size    int64
	timeout time.Duration
	most    func() int64 // bytes of a body; nil: MaxBody
}

func newBodies(budget int64, timeout time.Duration) *bodies {
	return &bodies{budget: semaphore.NewWeighted(budget), size: budget, timeout: timeout}
}

// body is the bytes of a request, held until release.
type body struct {
	data   []byte
	weight int64
	pooled *[]byte
	from   *bodies
}

func (b *body) release() {
	if b.weight > 0 {
		b.from.budget.Release(b.weight)
		b.weight = 0
	}
	if b.pooled != nil {
		smallBodies.Put(b.pooled)
		b.pooled, b.data = nil, nil
	}
}

var smallBodies = sync.Pool{New: func() any { b := make([]byte, 4<<10); return &b }}

var (
	errLengthRequired = statusFault(http.StatusLengthRequired, "LENGTH_REQUIRED",
		"A JSON body must come with a Content-Length.")
	errTimeout = statusFault(http.StatusRequestTimeout, "REQUEST_TIMEOUT",
		"The body did not arrive in time; send it again.")
	errMedia = fault.New(fault.UnsupportedMedia, "",
		"The body must be JSON, sent with the header 'Content-Type: application/json'. With curl, add -H 'Content-Type: application/json'.")
	errEncoding = fault.New(fault.UnsupportedMedia, "",
		"The body must not be compressed: send it without a Content-Encoding.")
	errTooLarge = fault.New(fault.TooLarge, "",
		"The body is larger than 10 MiB, the limit for JSON.")
	errNoBody = fault.New(fault.Malformed, "MISSING_BODY",
		"This operation needs a JSON body.")
	errCutOff = fault.New(fault.Malformed, "",
		"The body ended before its Content-Length.")
)

func errBusy(cause error) error {
	e := fault.New(fault.Unavailable, "", "Too many large requests are being read at the moment; retry shortly.").Because(cause)
	e.RetryAfter = time.Second
	return e
}

// read returns the body of a request, empty where there is none and it is
// optional. With pooled the bytes come from a pool and are invalid after release.
func (b *bodies) read(x *exchange, r *http.Request, optional, pooled bool) (body, error) {
	if err := acceptable(r, optional); err != nil {
		return body{}, err
	}
	if b.most != nil && r.ContentLength > b.most() {
		return body{}, fault.New(fault.TooLarge, "", "The body has %d bytes; the operator of this service lets bodies have at most %d.",
			r.ContentLength, b.most())
	}
	n := r.ContentLength
	if n == 0 {
		if !optional {
			return body{}, errNoBody
		}
		return body{}, nil
	}
	got := body{from: b}
	switch {
	case n > largeBody:
		if err := b.acquire(x, n); err != nil {
			return body{}, err
		}
		got.weight = min(n, b.size)
		got.data = make([]byte, n)
	case pooled:
		got.pooled = smallBodies.Get().(*[]byte)
		if int64(cap(*got.pooled)) < n {
			*got.pooled = make([]byte, n)
		}
		got.data = (*got.pooled)[:n]
	default:
		got.data = make([]byte, n)
	}
	if err := b.fill(x, r, got.data); err != nil {
		got.release()
		return body{}, err
	}
	return got, nil
}

// acceptable refuses a body by its headers alone.
func acceptable(r *http.Request, optional bool) error {
	switch {
	case r.ContentLength < 0:
		if !isJSON(r.Header.Get("Content-Type")) {
			return errMedia
		}
		return errLengthRequired
	case r.ContentLength == 0:
		if !optional && r.Header.Get("Content-Length") == "" && r.Header.Get("Content-Type") != "" {
			return errLengthRequired // bytes that follow do not belong to this request
		}
		return nil
	case r.ContentLength > MaxBody:
		return errTooLarge
	case !isJSON(r.Header.Get("Content-Type")):
		return errMedia
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return errEncoding
	}
	return nil
}

// isJSON reports whether a media type is JSON. A missing one counts, because many
// scripts send none.
func isJSON(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	media, parameters, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if media != "application/json" && !(strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")) {
		return false
	}
	_, charset, found := strings.Cut(strings.ToLower(parameters), "charset=")
	if !found {
		return true
	}
	charset, _, _ = strings.Cut(charset, ";")
	return strings.Trim(strings.TrimSpace(charset), `"`) == "utf-8"
}

func (b *bodies) acquire(x *exchange, n int64) error {
	n = min(n, b.size)
	if b.budget.TryAcquire(n) {
		return nil
	}
	ctx, cancel := context.WithTimeout(x, budgetWait)
	defer cancel()
	if err := b.budget.Acquire(ctx, n); err != nil {
		return errBusy(err)
	}
	return nil
}

// setBodyDeadline sets the deadline by which a body must have arrived, so that a
// slow sender does not hold a connection or memory. It also covers bodies that no
// handler reads: net/http waits for them before it answers.
func (b *bodies) setBodyDeadline(x *exchange, size int64) {
	if size < 0 {
		size = MaxUpload
	}
	allowed := b.timeout + time.Duration(size)*time.Second/minRate
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(allowed)) // not every writer supports deadlines
}

func (b *bodies) fill(x *exchange, r *http.Request, into []byte) error {
	if len(into) > largeBody {
		b.setBodyDeadline(x, int64(len(into))) // again: it may have waited for the budget
	}
	_, err := io.ReadFull(r.Body, into)
	switch {
	case err == nil:
		_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{}) // else it would end the request's context
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.Header()["Connection"] = []string{"close"}
		return errTimeout
	}
	return errCutOff
}

// ReadBody returns the JSON body of a Raw route's request under the same rules as
// any other (content type, length, size, time). The bytes are valid until release,
// which should be called as soon as they are decoded: until then they count
// against the memory budget. Errors are refusals; the caller checks the syntax.
func ReadBody(r *http.Request) (data []byte, release func(), err error) {
	x := exchangeOf(r.Context())
	got, err := x.server.bodies.read(x, r, false, true)
	return got.data, got.release, err
}

// DecodeBody is [ReadBody] for a body of one type, checked against its schema.
// The bytes are released before it returns: an answer may take minutes.
func DecodeBody[T any](r *http.Request) (*T, error) {
	data, release, err := ReadBody(r)
	defer release()
	if err != nil {
		return nil, err
	}
	return schema.Decode[T](data)
}

// KeepBody is [ReadBody] for a body that the caller keeps, such as one that is
// forwarded by a call that may take minutes. It does not count against the memory
// budget once it is read.
func KeepBody(r *http.Request) ([]byte, error) {
	x := exchangeOf(r.Context())
	got, err := x.server.bodies.read(x, r, false, false)
	got.release()
	return got.data, err
}
