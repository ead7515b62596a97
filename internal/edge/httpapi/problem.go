package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
)

// statusOf maps kinds of faults to statuses (interface.md section 7).
var statusOf = map[fault.Kind]int{
	fault.Internal:         http.StatusInternalServerError,
	fault.Malformed:        http.StatusBadRequest,
	fault.Unauthenticated:  http.StatusUnauthorized,
	fault.Forbidden:        http.StatusForbidden,
	fault.NotFound:         http.StatusNotFound,
	fault.Conflict:         http.StatusConflict,
	fault.Gone:             http.StatusGone,
	fault.Precondition:     http.StatusPreconditionFailed,
	fault.TooLarge:         http.StatusRequestEntityTooLarge,
	fault.UnsupportedMedia: http.StatusUnsupportedMediaType,
	fault.Invalid:          http.StatusUnprocessableEntity,
	fault.Limited:          http.StatusTooManyRequests,
	fault.Unsupported:      http.StatusNotImplemented,
	fault.Unavailable:      http.StatusServiceUnavailable,
	fault.Upstream:         http.StatusBadGateway,
	fault.UpstreamTimeout:  http.StatusGatewayTimeout,
}

// wireFault is a refusal that only exists on the wire, with the status that
// its kind does not have.
type wireFault struct {
	fault  *fault.Error
	status int
}

func (e wireFault) Error() string { return e.fault.Error() }
func (e wireFault) Unwrap() error { return e.fault }

func wire(status int, code, detail string) error {
	return wireFault{fault.New(fault.Malformed, code, "%s", detail), status}
}

// statusClientGone is logged for a client that went away unanswered.
const statusClientGone = 499

const internalDetail = "Something went wrong on our side; the correlation id names this request in our logs."

// Classify gives err as a fault with the status it is answered with.
func Classify(err error) (int, *fault.Error) {
	e := fault.From(err)
	if w, ok := errors.AsType[wireFault](err); ok {
		return w.status, e
	}
	if e.Kind == fault.Internal {
		e = &fault.Error{Kind: e.Kind, Code: "INTERNAL_ERROR", Detail: internalDetail, Cause: err}
	}
	return statusOf[e.Kind], e
}

// ErrorType is the type of an error in the envelopes of the compatible routes,
// which have the same ones (interface.md section 7, Compatible routes).
func ErrorType(kind fault.Kind) string {
	switch kind {
	case fault.Unauthenticated:
		return "authentication_error"
	case fault.Forbidden:
		return "permission_error"
	case fault.Limited:
		return "rate_limit_error"
	case fault.Internal, fault.Unavailable, fault.Unsupported, fault.Upstream, fault.UpstreamTimeout:
		return "api_error"
	}
	return "invalid_request_error"
}

// problem is the document of section 7.
type problem struct {
	Type    string         `json:"type" required:"true" doc:"Always about:blank: the code says what happened."`
	Title   string         `json:"title" required:"true" doc:"The reason phrase of the status."`
	Status  int            `json:"status" required:"true" doc:"The HTTP status."`
	Detail  string         `json:"detail" required:"true" doc:"One sentence for a person: what is wrong and how to mend it."`
	Code    string         `json:"code" required:"true" doc:"Stable and machine readable; branch on it."`
	ID      string         `json:"correlation_id" required:"true" doc:"The request's id, as in the header X-Request-Id."`
	Errors  []fault.Field  `json:"errors,omitempty" doc:"Every wrong field of a body that failed validation."`
	IDTwin  string         `json:"correlationId" required:"true" deprecated:"true" doc:"The same as correlation_id."`
	Members map[string]any `json:",embed" hidden:"true"`
}

func title(status int) string {
	switch status {
	case http.StatusUnprocessableEntity:
		return "Validation Error"
	case http.StatusRequestEntityTooLarge:
		return "Payload Too Large"
	}
	return http.StatusText(status)
}

// Problem answers with a problem document. It is how every refusal is
// rendered unless a Raw route renders its own.
func Problem(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
	doc := problem{
		Type: "about:blank", Title: title(status), Status: status, Detail: e.Detail, Code: e.Code,
		ID: RequestID(r.Context()), Errors: e.Fields,
	}
	doc.IDTwin = doc.ID
	for name, value := range e.Extra {
		switch name {
		case "type", "title", "status", "detail", "code", "correlation_id", "errors", "correlationId":
			continue // the document's own
		}
		if doc.Members == nil {
			doc.Members = make(map[string]any, len(e.Extra))
		}
		doc.Members[name] = value
	}
	body, err := json.Marshal(&doc, answerOptions)
	if err != nil { // an Extra that cannot be sent
		doc.Members = nil
		body, _ = json.Marshal(&doc, answerOptions)
	}
	RefusalHeaders(w, status, e)
	writeBody(w, status, "application/problem+json", body)
}

// RefusalHeaders sets the headers that go with a refusal, whatever its body
// looks like: WWW-Authenticate and Retry-After.
func RefusalHeaders(w http.ResponseWriter, status int, e *fault.Error) {
	h := w.Header()
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="svc"`)
	}
	if status == http.StatusTooManyRequests && e.Extra["quota"] != nil {
		h.Set("X-RateLimit-Bucket", "tenant") // a plan's limits are the company's
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
}

// refuse answers an error, once: after the header is out it can only cut the
// connection, so that the client does not take half an answer for a whole one.
func (x *exchange) refuse(r *http.Request, err error) {
	status, e := Classify(err)
	x.failed = e
	if status >= 500 && x.status == 0 && x.Context.Err() != nil {
		x.gone = true
		return
	}
	if x.status != 0 {
		panic(http.ErrAbortHandler)
	}
	if x.op != nil && x.op.fail != nil {
		x.op.fail(x, r, status, e)
		return
	}
	Problem(x, r, status, e)
}
