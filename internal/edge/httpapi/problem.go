package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
)

// statusOf maps kinds of faults to statuses.
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
	fault.Payment:          http.StatusPaymentRequired,
	fault.Locked:           http.StatusLocked,
}

// statusError is a refusal with a status of its own instead of its kind's.
type statusError struct {
	fault  *fault.Error
	status int
}

func (e statusError) Error() string { return e.fault.Error() }
func (e statusError) Unwrap() error { return e.fault }

func statusFault(status int, code, detail string) error {
	return statusError{fault.New(fault.Malformed, code, "%s", detail), status}
}

// statusClientGone is logged for a client that left before it was answered.
const statusClientGone = 499

const internalDetail = "Something went wrong on the server. The correlation id identifies this request in its logs."

// Classify returns err as a fault, with the status of its answer.
func Classify(err error) (int, *fault.Error) {
	e := fault.From(err)
	if w, ok := errors.AsType[statusError](err); ok {
		return w.status, e
	}
	if e.Kind == fault.Internal {
		e = &fault.Error{Kind: e.Kind, Code: "INTERNAL_ERROR", Detail: internalDetail, Cause: err}
	}
	return statusOf[e.Kind], e
}

// ErrorType returns the type of an error in the envelopes of the compatible
// routes, which share one set of types.
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

// problem is a problem document (RFC 9457).
type problem struct {
	Type    string         `json:"type" required:"true" doc:"Always about:blank; the code identifies the problem."`
	Title   string         `json:"title" required:"true" doc:"The reason phrase of the status."`
	Status  int            `json:"status" required:"true" doc:"The HTTP status."`
	Detail  string         `json:"detail" required:"true" doc:"What is wrong and how to fix it, for a person."`
	Code    string         `json:"code" required:"true" doc:"Stable, machine-readable code of the problem."`
	ID      string         `json:"correlation_id" required:"true" doc:"Id of the request, as in the header X-Request-Id."`
	Errors  []fault.Field  `json:"errors,omitempty" doc:"Every invalid field of a body that failed validation."`
	IDTwin  string         `json:"correlationId" alias:"correlation_id"`
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

// Problem answers with a problem document. It renders every refusal, unless a Raw
// route has a Fail of its own.
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

// RefusalHeaders sets the headers of a refusal in any format: WWW-Authenticate,
// Retry-After, X-Should-Retry and X-RateLimit-Bucket.
func RefusalHeaders(w http.ResponseWriter, status int, e *fault.Error) {
	h := w.Header()
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="svc"`)
	}
	if status == http.StatusTooManyRequests && e.Extra["quota"] != nil {
		h.Set("X-RateLimit-Bucket", "tenant") // the limits of a plan apply to the company
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	if lasts(status, e) {
		h.Set("X-Should-Retry", "false")
	}
}

// lasts reports whether the same request would be refused again however long the
// client waits. Many clients repeat a 409, which is right only for one that says
// when to retry.
func lasts(status int, e *fault.Error) bool {
	switch status {
	case http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusGone,
		http.StatusPreconditionFailed, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return true
	case http.StatusConflict:
		return e.RetryAfter == 0
	}
	return false
}

// writeError answers with an error. After the header was sent it can only cut the
// connection, so that the client does not take half an answer for a whole one.
func (x *exchange) writeError(r *http.Request, err error) {
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
