package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/route"
)

// answerOptions: maps in order, so that equal answers are equal bytes; text
// that is no UTF-8 (a tool's output, say) is mended instead of failing.
var answerOptions = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true))

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
	writeBody(w, status, "application/json", buf.Bytes())
	return nil
}

// reply sends what a row's function gave.
func (o *operation) reply(w http.ResponseWriter, out any) error {
	var r *route.Reply
	switch out := out.(type) {
	case *route.Reply:
		r = out
	case route.Reply:
		r = &out
	}
	if r == nil {
		if o.status == http.StatusNoContent {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return JSON(w, o.status, out)
	}
	status := r.Status
	if status == 0 {
		status = o.status
	}
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
	media := "application/json"
	if r.Media != "" {
		media = r.Media
	}
	writeBody(w, status, media, r.JSON)
	return nil
}

func (o *operation) cookie(c *route.Cookie) *http.Cookie {
	set := &http.Cookie{
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
	"application/json":         {"application/json"},
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
