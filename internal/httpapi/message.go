package httpapi

import (
	"io"
	"net/http"
	"reflect"
	"strings"

	"agentd/internal/fault"
	"agentd/internal/route"
)

var messageType = reflect.TypeFor[route.Message]()

// bindMessage gives the body of a request as it came. What it holds is released
// after the call.
func (b *binder) bindMessage(x *exchange, r *http.Request, into *route.Message) (body, error) {
	into.Header = r.Header
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return body{}, errEncoding
	}
	most := b.body.message
	over := fault.New(fault.TooLarge, "", "The body is larger than the %d KiB that this operation takes.", most>>10)
	n := r.ContentLength
	switch {
	case n > most:
		return body{}, over
	case n == 0:
		return body{}, nil
	}
	held := body{from: b.bodies}
	weight := n
	if n < 0 {
		weight = most // it may be as long as that
	}
	if weight > bigBody {
		if err := b.bodies.acquire(x, weight); err != nil {
			return body{}, err
		}
		held.weight = min(weight, b.bodies.size)
		b.bodies.hurry(x, n) // anew: it may have waited for its turn
	}
	var err error
	if n < 0 {
		held.data, err = io.ReadAll(&incoming{x: x, from: r.Body, left: most, over: over})
	} else {
		held.data = make([]byte, n)
		err = b.bodies.fill(x, r, held.data)
	}
	if err != nil {
		held.release()
		return body{}, err
	}
	into.Data = held.data
	return held, nil
}
