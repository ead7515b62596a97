package modelcall

import (
	"slices"
	"strings"

	"agentd/internal/kernel/model"
)

// ParamSet is a set of parameters that an endpoint refuses.
type ParamSet uint16

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

// refusalWords are the words with which endpoints say that they do not take a parameter at
// all. A value out of its range is the caller's mistake, and stays one.
var refusalWords = []string{
	"not support", "unsupported", "unknown", "unrecognized", "unexpected", "extra ", "extra_", "extra inputs", "not permitted", "not allowed",
	"cannot both", "deprecated", "only the default",
}

// Refused returns the parameter of a request that an endpoint's message refuses, and 0 if
// there is none. One refusal at a time, the last one named first: of two that cannot be
// used together, one stays.
func Refused(message string, req *model.Request) ParamSet {
	message = strings.ToLower(message)
	if !containsAny(message, refusalWords) {
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
		return req.Temperature != nil || Has(req, field)
	case "top_p":
		return req.TopP != nil || Has(req, field)
	case "stop":
		return len(req.Stop) > 0 || Has(req, field)
	}
	return Has(req, field)
}

// Drops reports whether a parameter is left out.
func (s ParamSet) Drops(field string) bool {
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

// DroppedOf returns the parameters of the set that a request has.
func (s ParamSet) DroppedOf(req *model.Request) (dropped []string) {
	if s == 0 {
		return nil
	}
	for i, p := range optionalParams {
		if s&(1<<i) != 0 && setsParam(req, p.field) {
			dropped = append(dropped, p.field)
		}
	}
	return dropped
}

// Params returns the set of these parameters.
func Params(fields ...string) (s ParamSet) {
	for i, p := range optionalParams {
		if slices.Contains(fields, p.field) {
			s |= 1 << i
		}
	}
	return s
}

// Has reports whether a request has a field among those without a place of their own.
func Has(req *model.Request, field string) bool {
	_, ok := req.Extra[field]
	return ok
}
