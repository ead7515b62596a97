package anthropic

import (
	"net/http"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/edge/httpapi"
)

// Envelope is an error in Anthropic's shape; appendEnvelope writes it.
type Envelope struct {
	_ struct{} `json:"-" name:"MessagesRefusal"`

	Type      string       `json:"type" required:"true" enum:"error"`
	Error     EnvelopeBody `json:"error" required:"true"`
	RequestID string       `json:"request_id" required:"true" doc:"As in the header X-Request-Id."`
}

// EnvelopeBody is the content of an envelope.
type EnvelopeBody struct {
	_ struct{} `json:"-" name:"MessagesError"`

	Type    string `json:"type" required:"true" enum:"invalid_request_error,authentication_error,permission_error,billing_error,rate_limit_error,api_error"`
	Message string `json:"message" required:"true" doc:"Lists every invalid field."`

	Details *EnvelopeDetails `json:"details,omitzero"`
}

// EnvelopeDetails has a code that clients act on.
type EnvelopeDetails struct {
	_ struct{} `json:"-" name:"MessagesErrorDetails"`

	Code string `json:"error_code" required:"true" enum:"thread_not_found"`
}

func errorType(e *fault.Error) string {
	switch code := strings.ToLower(e.Code); {
	case code == "limit_reached", code == "budget_exceeded", code == "plan_upgrade_required", strings.HasPrefix(code, "billing_"):
		return "billing_error"
	}
	return httpapi.ErrorType(e.Kind)
}

// message returns the message of an error. It lists all fields, because the envelope
// has no member for them.
func message(e *fault.Error) string {
	if len(e.Fields) == 0 {
		return e.Detail
	}
	var b strings.Builder
	for i, f := range e.Fields {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(dotted(f.Field) + ": " + f.Message)
	}
	return b.String()
}

// dotted writes messages[0].content as messages.0.content.
func dotted(path string) string { return brackets.Replace(path) }

var brackets = strings.NewReplacer("[", ".", "]", "")

func appendEnvelope(b []byte, e *fault.Error, requestID string) []byte {
	b = append(append(append(b, `{"type":"error","error":{"type":"`...), errorType(e)...), `","message":`...)
	b = appendString(b, message(e))
	if e.Code == codeNoThread { // clients act on it
		b = append(b, `,"details":{"error_code":"`+codeNoThread+`"}`...)
	}
	b = append(b, `},"request_id":`...)
	return append(appendString(b, requestID), '}')
}

// Fail renders an error in Anthropic's envelope. A missing scope or role, a body that
// is too large and rate limits are rendered as problem documents.
func Fail(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
	limited := e.Kind == fault.Limited && w.Header().Get("X-RateLimit-Bucket") != "" // by the chain, not by a plan
	if limited || e.Kind == fault.TooLarge || e.Code == "MISSING_SCOPE" || e.Code == "FORBIDDEN" {
		httpapi.Problem(w, r, status, e)
		return
	}
	httpapi.RefusalHeaders(w, status, e)
	if errorType(e) == "billing_error" || e.Code == "quota_exceeded" {
		// Anthropic's clients retry a 429 unless this header is set, and waiting as
		// long as they do does not change these.
		w.Header().Set("X-Should-Retry", "false")
	}
	id := httpapi.RequestID(r.Context())
	w.Header().Set("Request-Id", id)
	httpapi.JSONBytes(w, status, appendEnvelope(nil, e, id))
}
