package httpapi

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/route"
	"agentd/internal/kernel/idempotency"
)

// answerOptions: maps in order, so that equal answers are equal bytes; text
// that is no UTF-8 (a tool's output, say) is mended instead of failing.
var answerOptions = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true))

const jsonMedia = "application/json"

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keepBuffer is how big a buffer may be that is kept for the next request.
const keepBuffer = 64 << 10

// JSON answers with v as JSON. Nil slices are sent as [], nothing is escaped
// for HTML.
func JSON(w http.ResponseWriter, status int, v any) error {
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	defer func() {
		if buf.Cap() <= keepBuffer {
			buffers.Put(buf)
		}
	}()
	if err := json.MarshalWrite(buf, v, answerOptions); err != nil {
		return err
	}
	writeBody(w, status, jsonMedia, buf.Bytes())
	return nil
}

// JSONBytes answers with what is JSON already.
func JSONBytes(w http.ResponseWriter, status int, body []byte) { writeBody(w, status, jsonMedia, body) }

// asReply gives an answer that is one, and nil for one that is a plain value.
func asReply(out any) *route.Reply {
	switch out := out.(type) {
	case *route.Reply:
		return out
	case route.Reply:
		return &out
	}
	return nil
}

// reply sends what a row's function gave.
func (o *operation) reply(w http.ResponseWriter, out any) error {
	r := asReply(out)
	if r == nil {
		if o.status == http.StatusNoContent {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return JSON(w, o.status, out)
	}
	status := cmp.Or(r.Status, o.status)
	if r.ETag != "" {
		w.Header().Set("ETag", `"`+r.ETag+`"`)
	}
	if r.Location != "" {
		w.Header().Set("Location", r.Location)
	}
	if c := r.Cookie; c != nil {
		http.SetCookie(w, o.cookie(c))
	}
	if r.JSON == nil {
		w.WriteHeader(status)
		return nil
	}
	writeBody(w, status, cmp.Or(r.Media, jsonMedia), r.JSON)
	return nil
}

// render is what reply would send.
func (o *operation) render(out any) (*idempotency.Answer, error) {
	r := asReply(out)
	if r == nil {
		a := &idempotency.Answer{Status: o.status}
		if o.status == http.StatusNoContent {
			return a, nil
		}
		var err error
		a.Media = jsonMedia
		a.Body, err = json.Marshal(out, answerOptions)
		return a, err
	}
	a := &idempotency.Answer{Status: cmp.Or(r.Status, o.status), Location: r.Location, Body: r.JSON}
	if r.ETag != "" {
		a.ETag = `"` + r.ETag + `"`
	}
	if r.JSON != nil {
		a.Media = contentTypes[cmp.Or(r.Media, jsonMedia)][0]
	}
	return a, nil
}

func (o *operation) cookie(c *route.Cookie) *http.Cookie {
	set := &http.Cookie{ //nolint:gosec // G124: over plain HTTP, which is how agentd runs on one's own machine, a browser keeps no secure cookie
		Name: c.Name, Value: c.Value, Path: "/", MaxAge: int(c.Lasts / time.Second),
		HttpOnly: true, Secure: o.https, SameSite: http.SameSiteLaxMode,
	}
	if c.Strict {
		set.SameSite = http.SameSiteStrictMode
	}
	if c.Lasts <= 0 {
		set.MaxAge = -1 // at once
	}
	return set
}

var contentTypes = map[string][]string{
	jsonMedia:                  {jsonMedia},
	"application/problem+json": {"application/problem+json"},
	"text/markdown":            {"text/markdown; charset=utf-8"},
}

func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h["Content-Type"] = contentTypes[contentType]
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if _, set := h["Cache-Control"]; !set {
		h["Cache-Control"] = noStore
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is seen by the server
}
