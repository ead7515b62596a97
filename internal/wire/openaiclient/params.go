package openaiclient

import (
	"slices"
	"strings"

	"agentd/internal/kernel/model"
)

// paramSet is a set of parameters that an endpoint refuses.
type paramSet uint16

// optionalParams are the parameters that a call can do without, by their names and those
// that endpoints use for them in errors.
var optionalParams = []struct {
	field string
	words []string
}{
	{"temperature", []string{"temperature"}},
	{"top_p", []string{"top_p", "topp"}},
	{"stop", []string{"'stop'", "`stop`", `"stop"`, "stop sequences", ": stop", "parameter stop"}},
	{"seed", []string{"seed"}},
	{"presence_penalty", []string{"presence_penalty", "presencepenalty"}},
	{"frequency_penalty", []string{"frequency_penalty", "frequencypenalty"}},
	{"parallel_tool_calls", []string{"parallel_tool_calls"}},
	{"response_format", []string{"response_format"}},
}

// refusals are the words with which endpoints say that they do not take a parameter at
// all. A value out of its range is the caller's mistake, and stays one.
var refusals = []string{
	"not support", "unsupported", "unknown", "unrecognized", "unexpected", "extra ", "extra_", "extra inputs", "not permitted", "not allowed",
	"cannot both", "deprecated", "only the default",
}

// refused returns the parameter of a request that an endpoint's message refuses, and 0 if
// there is none. One refusal at a time, the last one named first: of two that cannot be
// used together, one stays.
func refused(message string, req *model.Request) paramSet {
	message = strings.ToLower(message)
	if !containsAny(message, refusals) {
		return 0
	}
	for i, p := range slices.Backward(optionalParams) {
		if setsParam(req, p.field) && containsAny(message, p.words) {
			return 1 << i
		}
	}
	return 0
}

func containsAny(s string, words []string) bool {
	for _, word := range words {
		if strings.Contains(s, word) {
			return true
		}
	}
	return false
}

// setsParam reports whether a request has an optional parameter.
func setsParam(req *model.Request, field string) bool {
	switch field {
	case "temperature":
		return req.Temperature != nil || has(req, field)
	case "top_p":
		return req.TopP != nil || has(req, field)
	case "stop":
		return len(req.Stop) > 0 || has(req, field)
	}
	return has(req, field)
}

// drops reports whether a parameter is left out.
func (s paramSet) drops(field string) bool {
	if s == 0 {
		return false
	}
	for i, p := range optionalParams {
		if p.field == field {
			return s&(1<<i) != 0
		}
	}
	return false
}

// droppedOf returns the parameters of a request that were left out.
func (d dialect) droppedOf(req *model.Request) (dropped []string) {
	if d.dropped == 0 && !d.noThinking {
		return nil
	}
	for _, p := range optionalParams {
		if d.dropped.drops(p.field) && setsParam(req, p.field) {
			dropped = append(dropped, p.field)
		}
	}
	for _, field := range thinkingFields {
		if d.noThinking && has(req, field) {
			dropped = append(dropped, field)
		}
	}
	return dropped
}
