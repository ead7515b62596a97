package httpapi

import (
	"io"
	"net/http"
	"reflect"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
)

var messageType = reflect.TypeFor[route.Message]()

// bindMessage binds the body of a request as it was sent. The caller releases it.
func (b *binder) bindMessage(x *exchange, r *http.Request, into *route.Message) (body, error) {
	into.Header = r.Header
	held, err := b.bodies.message(x, r, b.body.message)
	into.Data = held.data
	return held, err
}

// ReadMessage returns the body of a Raw route's request as it was sent, of any
// media type, up to limit bytes; see [ReadBody]. The caller owns the bytes; they
// count against the memory budget until release.
func ReadMessage(r *http.Request, limit int64) (data []byte, release func(), err error) {
	x := exchangeOf(r.Context())
	got, err := x.server.bodies.message(x, r, limit)
	data, got.data = got.data, nil // so that release does not keep them alive
	return data, got.release, err
}

// message reads a body as it was sent.
func (b *bodies) message(x *exchange, r *http.Request, limit int64) (body, error) {
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return body{}, errEncoding
	}
	tooLarge := fault.New(fault.TooLarge, "", "The body is larger than %d KiB, the limit of this operation.", limit>>10)
	n := r.ContentLength
	switch {
	case n > limit:
		return body{}, tooLarge
	case n == 0:
		return body{}, nil
	}
	held := body{from: b}
	weight := n
	if n < 0 {
		weight = limit // it may be that long
	}
	if weight > largeBody {
		if err := b.acquire(x, weight); err != nil {
			return body{}, err
		}
		held.weight = min(weight, b.size)
		b.setBodyDeadline(x, n) // again: it may have waited for the budget
	}
	var err error
	if n < 0 {
		held.data, err = io.ReadAll(&limitedBody{x: x, from: r.Body, remaining: limit, tooLarge: tooLarge})
	} else {
		held.data = make([]byte, n)
		err = b.fill(x, r, held.data)
	}
	if err != nil {
		held.release()
		return body{}, err
	}
	return held, nil
}
