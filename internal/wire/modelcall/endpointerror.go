package modelcall

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// EndpointError is an error that an endpoint reported. Its Error text is for logs.
type EndpointError struct {
	Message string
	Type    string
	Code    string // a word or a number
	// RetryAfter is the wait that the endpoint requests in the error; 0: none.
	RetryAfter time.Duration
}

func (e *EndpointError) Error() string {
	said := slices.DeleteFunc([]string{e.Type, e.Code, e.Message}, func(s string) bool { return s == "" })
	if len(said) == 0 {
		return "the endpoint gave no reason"
	}
	return "endpoint: " + strings.Join(said, ": ")
}

// ParseError reads the forms in use: {"error": {message, type, code}},
// {"error": "…"}, the members at the top level, {"detail": …}, and any of these in an
// array. For other forms the message is empty.
func ParseError(raw []byte) *EndpointError {
	type members struct {
		Message Text           `json:"message"`
		Type    Text           `json:"type"`
		Code    jsontext.Value `json:"code"`
		Detail  Text           `json:"detail"`
		Error   jsontext.Value `json:"error"`
		Status  Text           `json:"status"`  // Gemini: a word
		Details jsontext.Value `json:"details"` // Gemini
	}
	var list []jsontext.Value
	if json.Unmarshal(raw, &list, Lenient) == nil && len(list) > 0 {
		raw = list[0]
	}
	var outer, inner members
	e := &EndpointError{}
	if json.Unmarshal(raw, &outer, Lenient) != nil {
		return e
	}
	inner = outer
	switch outer.Error.Kind() {
	case '{':
		inner = members{}
		_ = json.Unmarshal(outer.Error, &inner, Lenient) // valid as part of raw
	case '"':
		var s Text
		_ = json.Unmarshal(outer.Error, &s, Lenient)
		inner.Message = s
	}
	e.Message, e.Type = string(inner.Message), string(cmp.Or(inner.Type, inner.Status))
	if e.Message == "" {
		e.Message = string(inner.Detail)
	}
	switch inner.Code.Kind() {
	case '"', '0':
		e.Code = strings.Trim(string(inner.Code), `"`)
	}
	e.RetryAfter = retryInfo(inner.Details)
	return e
}

// retryInfo returns the wait in the details of an error of Google's.
func retryInfo(details jsontext.Value) time.Duration {
	var all []struct {
		Type  Text `json:"@type"`
		Delay Text `json:"retryDelay"`
	}
	if details.Kind() != '[' || json.Unmarshal(details, &all, Lenient) != nil {
		return 0
	}
	for _, d := range all {
		if wait, err := time.ParseDuration(string(d.Delay)); err == nil && strings.HasSuffix(string(d.Type), "RetryInfo") {
			return max(0, wait)
		}
	}
	return 0
}

// is reports whether the error has a code or type.
func (e *EndpointError) is(name string) bool { return e.Code == name || e.Type == name }

// status returns the HTTP status of the error; inside a 200 it is derived from its code
// or type.
func (e *EndpointError) status(actual int) int {
	switch {
	case actual == 400 && e.isKey():
		return 401
	case actual != 200:
		return actual
	}
	if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n < 600 {
		if n == 400 && e.isKey() {
			return 401
		}
		return n
	}
	name := strings.ToLower(e.Code + " " + e.Type)
	for _, known := range []struct {
		word   string
		status int
	}{
		{"rate_limit", 429}, {"too_many_requests", 429}, {"insufficient_quota", 429}, {"resource_exhausted", 429},
		{"overloaded", 503}, {"unavailable", 503}, {"server_error", 500}, {"internal", 500}, {"timeout", 504},
		{"auth", 401}, {"invalid_api_key", 401}, {"permission", 403},
	} {
		if strings.Contains(name, known.word) {
			return known.status
		}
	}
	return actual
}

// isContextLength reports whether the conversation is too long, which each server
// words differently.
func (e *EndpointError) isContextLength() bool {
	if e.is("context_length_exceeded") || e.is("exceed_context_size_error") {
		return true
	}
	m := strings.ToLower(e.Message)
	for _, words := range []string{
		"maximum context length", "context length exceeded", "exceeds the context", "exceed context", "context window",
		"prompt is too long", "input is too long", "too many input tokens", "available context size",
		"exceeds the maximum number of tokens",
	} {
		if strings.Contains(m, words) {
			return true
		}
	}
	return false
}

// isKey reports whether the key was refused, which Gemini answers with a 400.
func (e *EndpointError) isKey() bool { return strings.HasPrefix(e.Message, "API key not valid") }

// isFiltered reports whether a safety filter blocked the prompt or the answer.
func (e *EndpointError) isFiltered() bool {
	return e.is("content_filter") || e.is("content_policy_violation") || e.is("ResponsibleAIPolicyViolation")
}

// isPrivate reports whether a word of an endpoint's message must not be shown: one that
// looks like a key, or like an address in the operator's network.
func isPrivate(word string) bool {
	if strings.Contains(word, "://") || strings.Contains(word, "sk-") || strings.HasPrefix(word, "eyJ") {
		return true
	}
	bare := strings.Trim(word, `"'().,;:[]<>`)
	if _, err := netip.ParseAddr(bare); err == nil {
		return true
	}
	host, port, ok := strings.Cut(bare, ":")
	if _, err := strconv.ParseUint(port, 10, 16); !ok || err != nil {
		return false
	}
	return strings.ContainsAny(host, ".") || host == "localhost"
}
