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

// bindMessage gives the body of a request as it came. What it holds is released
// after the call.
func (b *binder) bindMessage(x *exchange, r *http.Request, into *route.Message) (body, error) {
	into.Header = r.Header
	held, err := b.bodies.message(x, r, b.body.message)
	into.Data = held.data
	return held, err
}

// ReadMessage gives the body of a Raw route's request as it came, of any media
// type, up to so many bytes; see [ReadBody]. The bytes are the caller's; they
// count against the budget of big bodies until release.
func ReadMessage(r *http.Request, most int64) (data []byte, release func(), err error) {
	x := exchangeOf(r.Context())
	got, err := x.server.bodies.message(x, r, most)
	data, got.data = got.data, nil // who is done with them before the release lets them go
	return data, got.release, err
}

// message reads a body as it came.
func (b *bodies) message(x *exchange, r *http.Request, most int64) (body, error) {
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return body{}, errEncoding
	}
	over := fault.New(fault.TooLarge, "", "The body is larger than the %d KiB that this operation takes.", most>>10)
	n := r.ContentLength
	switch {
	case n > most:
		return body{}, over
	case n == 0:
		return body{}, nil
	}
	held := body{from: b}
	weight := n
	if n < 0 {
		weight = most // it may be as long as that
	}
	if weight > bigBody {
		if err := b.acquire(x, weight); err != nil {
			return body{}, err
		}
		held.weight = min(weight, b.size)
		b.hurry(x, n) // anew: it may have waited for its turn
	}
	var err error
	if n < 0 {
		held.data, err = io.ReadAll(&incoming{x: x, from: r.Body, left: most, over: over})
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
