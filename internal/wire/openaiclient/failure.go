package openaiclient

import (
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
	codeModel         = "model_error"
	codeLimited       = "model_rate_limited"
	codeAuth          = "provider_auth_failed"
	codeNotConfigured = "provider_not_configured"
	codeContext       = model.CodeContextLength
)

const (
	maxErrorBody   = 64 << 10
	maxReported    = 4 << 10 // bytes of each part of an endpoint's error that are kept, for logs
	maxExplanation = 300     // bytes of an endpoint's message that are shown
)

// statusError returns the error of an answer whose status is not 200.
func statusError(resp *http.Response, body io.Reader, req *model.Request) *model.Error {
	// An explanation that cannot be read completely is used as far as it was read.
	raw, _ := io.ReadAll(io.LimitReader(body, maxErrorBody))
	e := classify(resp.StatusCode, parseEndpointError(raw), req)
	e.RetryAfter = retryAfter(resp.Header, time.Now())
	if resp.StatusCode == http.StatusConflict && e.RetryAfter > 0 { // an overloaded endpoint, not a refusal
		e.Passing = true
	}
	return e
}

// classify maps an endpoint's error to a model.Error. The endpoint's own message is
// included where it may help the caller: not for keys, and not for failures inside the
// endpoint.
func classify(status int, reported *endpointError, req *model.Request) *model.Error {
	key := req.Target.APIKey.Reveal()
	for _, word := range []*string{&reported.Message, &reported.Type, &reported.Code} {
		if key != "" { // some endpoints repeat the key, which must not be logged
			*word = strings.ReplaceAll(*word, key, secret.Redacted)
		}
		*word = basetext.PrefixBytes(*word, maxReported)
	}
	e := &model.Error{Code: codeModel, Status: status, Cause: reported}
	words := reported.publicText()
	switch kind := reported.status(status); {
	case kind != http.StatusTooManyRequests && reported.isContextLength():
		e.Code, e.Detail = codeContext, "The conversation is longer than the model's context window"
	case kind == http.StatusUnauthorized || kind == http.StatusForbidden:
		e.Code, e.Detail, words = codeAuth, fmt.Sprintf("The model endpoint refused the key (status %d); check the provider's key", status), ""
	case kind == http.StatusTooManyRequests:
		e.Code, e.Detail = codeLimited, "The model endpoint limits the rate of calls"
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

// dialError returns the error of a call without an answer.
func dialError(ctx context.Context, err error) *model.Error {
	e := &model.Error{Code: codeModel, Retryable: true, Passing: true, Cause: err}
	denied, ok := errors.AsType[*fault.Error](err)
	switch {
	case ok: // of the guarded transport
		e.Detail, e.Retryable, e.Passing = denied.Detail, false, false
	case context.Cause(ctx) == errIdle, context.Cause(ctx) == errDeadline:
		e.Detail, e.Cause = "The model endpoint did not begin to answer in time.", errIdle
	default:
		e.Detail = "The model endpoint could not be reached."
	}
	return e
}

// readError returns the error of an answer that could not be read to its end.
func readError(ctx context.Context, err error, req *model.Request) *model.Error {
	e := &model.Error{Code: codeModel, Status: http.StatusOK, Cause: err}
	reported, inBand := errors.AsType[*endpointError](err)
	switch {
	case inBand:
		return classify(http.StatusOK, reported, req)
	case context.Cause(ctx) == errIdle:
		e.Detail, e.Cause, e.Retryable = "The model endpoint stopped sending in the middle of its answer.", errIdle, true
	case context.Cause(ctx) == errDeadline:
		e.Detail, e.Cause, e.Passing = "The model endpoint did not finish its answer within this deployment's time limit.", errDeadline, true
	case errors.Is(err, errTooLong):
		e.Detail = "The model's answer is longer than this deployment accepts."
	case errors.Is(err, errTooManyCalls):
		e.Detail = fmt.Sprintf("The model's answer calls more than %d tools at once.", maxCalls)
	case errors.Is(err, errGarbage):
		e.Detail = "The model endpoint did not send a chat completion; check that its address is that of an OpenAI-compatible API."
	case errors.Is(err, errEmpty):
		e.Detail, e.Passing = "The model endpoint sent an empty answer.", true
	default:
		e.Detail, e.Retryable = "The connection to the model endpoint broke in the middle of its answer.", true
	}
	e.Passing = e.Passing || e.Retryable
	return e
}

// asError converts an error of attempt to a *model.Error.
func asError(err error) *model.Error {
	if e, ok := errors.AsType[*model.Error](err); ok {
		return e
	}
	return &model.Error{Code: codeModel, Detail: "The model could not be called.", Cause: err}
}

// publicText returns the endpoint's message in a form that can be shown: one line of
// moderate length, without keys and addresses.
func (e *endpointError) publicText() string {
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
