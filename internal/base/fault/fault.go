// Package fault is the one error vocabulary of agentd. A fault has a kind, a
// stable code, a sentence that is safe to show to a caller, and a private
// cause that only logs see. The HTTP status is chosen at the edge, never here.
package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind is the general class of a failure. The edge maps each kind to one HTTP
// status.
type Kind int

// The kinds, with the status each becomes.
const (
	Internal         Kind = iota // 500: a bug of ours; Detail is replaced by a fixed sentence
	Malformed                    // 400: the bytes cannot be read as a request
	Unauthenticated              // 401
	Forbidden                    // 403: scope, role, suspended tenant, plan or policy
	NotFound                     // 404: absent, or another tenant's
	Conflict                     // 409: wrong state, already exists, or changed concurrently
	Gone                         // 410: existed and will not come back
	Precondition                 // 412: If-Match did not match
	TooLarge                     // 413
	UnsupportedMedia             // 415
	Invalid                      // 422: well-formed, but not acceptable; Fields lists the places
	Limited                      // 429: RetryAfter is the time to wait
	Unsupported                  // 501: switched off on this deployment
	Unavailable                  // 503: a dependency is missing or a queue is full; retry
	Upstream                     // 502: another service refused the call or sent an unusable answer
	UpstreamTimeout              // 504: another service did not answer in time
	Payment                      // 402: the company must pay first
	Locked                       // 423: under a legal hold
)

// Error is a failure with a public face. The zero Code of a kind is filled by
// [New] and friends; Detail is never empty.
type Error struct {
	Kind       Kind
	Code       string // stable, machine readable; clients branch on it
	Detail     string // one sentence for a person; no SQL, paths, type names
	Fields     []Field
	RetryAfter time.Duration  // with Limited, Unavailable and a Conflict that will pass
	Extra      map[string]any // further members of the problem document
	Cause      error          // for logs only
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Code + ": " + e.Detail + ": " + e.Cause.Error()
	}
	return e.Code + ": " + e.Detail
}

func (e *Error) Unwrap() error { return e.Cause }

// New returns a fault; with an empty code it has the kind's usual one.
func New(kind Kind, code, format string, args ...any) *Error {
	if code == "" {
		code = defaultCode[kind]
	}
	return &Error{Kind: kind, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Because attaches the private cause.
func (e *Error) Because(err error) *Error {
	e.Cause = err
	return e
}

var defaultCode = map[Kind]string{
	Internal:         "INTERNAL_ERROR",
	Malformed:        "INVALID_REQUEST",
	Unauthenticated:  "AUTH_ERROR",
	Forbidden:        "FORBIDDEN",
	NotFound:         "NOT_FOUND",
	Conflict:         "CONFLICT",
	Gone:             "GONE",
	Precondition:     "PRECONDITION_FAILED",
	TooLarge:         "PAYLOAD_TOO_LARGE",
	UnsupportedMedia: "UNSUPPORTED_MEDIA_TYPE",
	Invalid:          "VALIDATION_ERROR",
	Limited:          "rate_limit_exceeded",
	Unsupported:      "FEATURE_DISABLED",
	Unavailable:      "SERVICE_UNAVAILABLE",
	Upstream:         "EXTERNAL_SERVICE_ERROR",
	UpstreamTimeout:  "EXTERNAL_SERVICE_TIMEOUT",
	Payment:          "BILLING_PAST_DUE",
	Locked:           "LEGAL_HOLD",
}

// NewNotFound is the 404 for a thing that is absent or another tenant's: the two
// are the same sentence, so that nothing leaks.
func NewNotFound(what string) *Error {
	return New(NotFound, "", "There is no such %s in this company.", what)
}

// UnderHold is the 423 for what a legal hold keeps.
func UnderHold() *Error {
	return New(Locked, "", "This company's data is under a legal hold: nothing of it is deleted until the operator lifts the hold.")
}

// BadFields returns a 422 that names every invalid field.
func BadFields(fields ...Field) *Error {
	e := New(Invalid, "", "%d of the request's fields cannot be accepted; see errors.", len(fields))
	if len(fields) == 1 {
		e.Detail = fmt.Sprintf("The field %s cannot be accepted: %s", fields[0].Field, fields[0].Message)
	}
	for i := range fields {
		fields[i] = fields[i].Complete()
	}
	e.Fields = fields
	return e
}

// WrongState returns the 409 of an action that the state of its target does not
// allow.
func WrongState(what, state, action string) *Error {
	return New(Conflict, "INVALID_STATE_TRANSITION", "The %s is %s, and %s is not possible in that state.", what, state, action)
}

// Changed returns the 409 of a lost race.
func Changed(what string) *Error {
	e := New(Conflict, "CONCURRENT_MODIFICATION", "The %s was changed by somebody else at the same moment; read it again and "+
		"retry.", what)
	e.RetryAfter = time.Second
	return e
}

// From returns err as a fault. Any other error becomes Internal with err as its
// cause; the error of an ended context becomes Unavailable.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return New(Unavailable, "", "The request ended before it could be answered; retry.").Because(err)
	}
	return New(Internal, "", "Something went wrong on our side; the correlation id names this request in our logs.").Because(err)
}

// Is reports whether err is a fault of that kind.
func Is(err error, kind Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == kind
}
