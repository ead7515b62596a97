package modelcall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	basetext "agentd/internal/base/text"
	"agentd/internal/kernel/model"
)

// The codes of model.Error.
const (
	CodeModel         = "model_error"
	CodeLimited       = "model_rate_limited"
	CodeAuth          = "provider_auth_failed"
	CodeNotConfigured = "provider_not_configured"
	CodeContext       = model.CodeContextLength
)

// compatibleAPI is what endpoints speak, unless their wire is another.
const compatibleAPI = "an OpenAI-compatible API"

const (
	// MaxErrorBody bounds the bytes of an endpoint's error that are read.
	MaxErrorBody = 64 << 10

	maxReported    = 4 << 10 // bytes of each part of an endpoint's error that are kept, for logs
	maxExplanation = 300     // bytes of an endpoint's message that are shown
)

// StatusError returns the error of an answer whose status is not 200.
func StatusError(resp *http.Response, body io.Reader, req *model.Request) *model.Error {
	// An explanation that cannot be read completely is used as far as it was read.
	raw, _ := io.ReadAll(io.LimitReader(body, MaxErrorBody))
	reported := ParseError(raw)
	if reported.Type == "" { // of AWS
		reported.Type, _, _ = strings.Cut(resp.Header.Get("X-Amzn-Errortype"), ":")
	}
	e := Classify(resp.StatusCode, reported, req)
	e.RetryAfter = cmp.Or(RetryAfter(resp.Header, time.Now()), reported.RetryAfter)
	if resp.StatusCode == http.StatusConflict && e.RetryAfter > 0 { // an overloaded endpoint, not a refusal
		e.Passing = true
	}
	return e
}

// Classify maps an endpoint's error to a model.Error. The endpoint's own message is
// included where it may help the caller: not for keys, and not for failures inside the
// endpoint.
func Classify(status int, reported *EndpointError, req *model.Request) *model.Error {
	key := req.Target.APIKey.Reveal()
	for _, word := range []*string{&reported.Message, &reported.Type, &reported.Code} {
		if key != "" { // some endpoints repeat the key, which must not be logged
			*word = strings.ReplaceAll(*word, key, secret.Redacted)
		}
		*word = basetext.PrefixBytes(*word, maxReported)
	}
	e := &model.Error{Code: CodeModel, Status: status, Cause: reported}
	words := reported.publicText()
	switch kind := reported.status(status); {
	case kind != http.StatusTooManyRequests && reported.isContextLength():
		e.Code, e.Detail = CodeContext, "The conversation is longer than the model's context window"
	case reported.isFiltered():
		e.Code, e.Detail = model.CodeFiltered, "The provider's safety filter blocked the conversation"
	case kind == http.StatusUnauthorized || kind == http.StatusForbidden:
		e.Code, e.Detail, words = CodeAuth, fmt.Sprintf("The model endpoint refused the key (status %d); check the provider's key", status), ""
	case kind == http.StatusTooManyRequests:
		e.Code, e.Detail = CodeLimited, "The model endpoint limits the rate of calls"
		e.Retryable = !reported.is("insufficient_quota")
	case kind == http.StatusNotFound:
		e.Detail = fmt.Sprintf("The model endpoint does not know the model %q or the path (status 404)", req.Target.Model)
	case kind >= 300 && kind < 400:
		e.Detail, words = fmt.Sprintf("The model endpoint answered with a redirect (status %d), which is not followed; configure its "+
			"final address", status), ""
	case kind == http.StatusRequestTimeout || kind == http.StatusTooEarly || kind >= 500 && kind != http.StatusNotImplemented:
		e.Detail, words = fmt.Sprintf("The model endpoint failed (status %d)", kind), ""
		e.Retryable = true
	case status == http.StatusOK:
		e.Detail = "The model endpoint answered with an error"
	default:
		e.Detail = fmt.Sprintf("The model endpoint refused the call (status %d)", status)
	}
	if words != "" {
		e.Detail += ": " + words
	} else {
		e.Detail += "."
	}
	e.Passing = e.Retryable
	return e
}

// DialError returns the error of a call without an answer.
func DialError(ctx context.Context, err error) *model.Error {
	e := &model.Error{Code: CodeModel, Retryable: true, Passing: true, Cause: err}
	denied, ok := errors.AsType[*fault.Error](err)
	switch {
	case ok: // of the guarded transport
		e.Detail, e.Retryable, e.Passing = denied.Detail, false, false
	case context.Cause(ctx) == ErrIdle, context.Cause(ctx) == ErrDeadline:
		e.Detail, e.Cause = "The model endpoint did not begin to answer in time.", ErrIdle
	default:
		e.Detail = "The model endpoint could not be reached."
	}
	return e
}

// ReadError returns the error of an answer that could not be read to its end. api is what
// the endpoint must speak; "": an OpenAI-compatible API.
func ReadError(ctx context.Context, err error, req *model.Request, api string) *model.Error {
	e := &model.Error{Code: CodeModel, Status: http.StatusOK, Cause: err}
	reported, inBand := errors.AsType[*EndpointError](err)
	switch {
	case inBand:
		return Classify(http.StatusOK, reported, req)
	case context.Cause(ctx) == ErrIdle:
		e.Detail, e.Cause, e.Retryable = "The model endpoint stopped sending in the middle of its answer.", ErrIdle, true
	case context.Cause(ctx) == ErrDeadline:
		e.Detail, e.Cause, e.Passing = "The model endpoint did not finish its answer within this deployment's time limit.", ErrDeadline, true
	case errors.Is(err, ErrTooLong):
		e.Detail = "The model's answer is longer than this deployment accepts."
	case errors.Is(err, ErrTooManyCalls):
		e.Detail = fmt.Sprintf("The model's answer calls more than %d tools at once.", MaxCalls)
	case errors.Is(err, ErrGarbage):
		e.Detail = "The model endpoint did not send an answer of a model; check that its address is that of " + cmp.Or(api, compatibleAPI) + "."
	case errors.Is(err, ErrEmpty):
		e.Detail, e.Passing = "The model endpoint sent an empty answer.", true
	default:
		e.Detail, e.Retryable = "The connection to the model endpoint broke in the middle of its answer.", true
	}
	e.Passing = e.Passing || e.Retryable
	return e
}

// AsError converts an error of attempt to a *model.Error.
func AsError(err error) *model.Error {
	if e, ok := errors.AsType[*model.Error](err); ok {
		return e
	}
	return &model.Error{Code: CodeModel, Detail: "The model could not be called.", Cause: err}
}

// publicText returns the endpoint's message in a form that can be shown: one line of
// moderate length, without keys and addresses.
func (e *EndpointError) publicText() string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(e.Message, func(r rune) bool { return r <= ' ' || r == 0x7F }) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if isPrivate(word) {
			word = "[…]"
		}
		shown := basetext.PrefixBytes(word, maxExplanation-b.Len())
		b.WriteString(strings.ToValidUTF8(shown, "�"))
		if len(shown) < len(word) || b.Len() >= maxExplanation {
			b.WriteString(" …")
			break
		}
	}
	return b.String()
}
