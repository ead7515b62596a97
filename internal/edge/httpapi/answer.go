package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/route"
	"agentd/internal/kernel/idempotency"
)

// answerOptions sort maps, so that equal answers are equal bytes, and replace
// invalid UTF-8 (from a tool's output, say) instead of failing.
var answerOptions = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true))

const jsonMedia = "application/json"

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keepBuffer is the capacity up to which a buffer is kept for reuse.
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

// JSONBytes answers with a body that is JSON already.
func JSONBytes(w http.ResponseWriter, status int, body []byte) { writeBody(w, status, jsonMedia, body) }

// asReply returns out as a reply, nil where it is a plain value.
func asReply(out any) *route.Reply {
	switch out := out.(type) {
	case *route.Reply:
		return out
	case route.Reply:
		return &out
	}
	return nil
}

// reply sends what a row's function returned.
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
		o.setCookie(w, c)
	}
	if r.JSON == nil {
		w.WriteHeader(status)
		return nil
	}
	writeBody(w, status, cmp.Or(r.Media, jsonMedia), r.JSON)
	return nil
}

// render returns what reply would send to a request that is repeated.
func (o *operation) render(out any) (*idempotency.Answer, error) {
	if once, ok := out.(route.ShownOnce); ok {
		out = once.WithoutSecret()
	}
	out, err := o.withTag(out)
	if err != nil {
		return nil, err
	}
	r := asReply(out)
	if r == nil {
		a := &idempotency.Answer{Status: o.status}
		if o.status == http.StatusNoContent {
			return a, nil
		}
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

// SetCookie sets a cookie with the answer of a Raw row, as the answers of all other
// rows do.
func SetCookie(ctx context.Context, c *route.Cookie) {
	if x := exchangeOf(ctx); x != nil {
		x.op.setCookie(x, c)
	}
}

// Cookie returns the value of a cookie that SetCookie or a row's answer set with Host, ""
// if there is none or more than one.
func Cookie(r *http.Request, name string) string {
	if x := exchangeOf(r.Context()); x != nil && x.op.https {
		name = hostPrefix + name
	}
	if values := cookies(r, name); len(values) == 1 {
		return values[0]
	}
	return ""
}

// setCookie sets a cookie. Under https those that are for this host alone have the
// prefix __Host-. With the session's cookie the one without the prefix ends, which an
// earlier answer may have set.
func (o *operation) setCookie(w http.ResponseWriter, c *route.Cookie) {
	set := o.cookie(c) //nolint:gosec // G124: see cookie
	if o.https && (c.Host || c.Name == sessionCookie) {
		set.Name = hostPrefix + c.Name
		if c.Lasts <= 0 {
			http.SetCookie(w, o.cookie(c))
		}
	}
	http.SetCookie(w, set)
}

func (o *operation) cookie(c *route.Cookie) *http.Cookie {
	set := &http.Cookie{ //nolint:gosec // G124: over plain HTTP, as on a developer's machine, browsers drop secure cookies
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
	"text/html":                {"text/html; charset=utf-8"},
	linesMedia:                 {linesMedia},
}

func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h["Content-Type"] = contentTypes[contentType]
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if _, set := h["Cache-Control"]; !set {
		h["Cache-Control"] = noStore
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // net/http notices a client that left
}
