package geminiclient

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// dialect is how requests are written for a model. A call starts with the default one and
// adapts to a 400 that names what the model does not take.
type dialect struct {
	thinking       thinkingForm
	skipSignatures bool // with a marker in calls that have no signature
	noOpaque       bool // without the signatures of earlier answers
	noForm         bool // without responseJsonSchema
	dropped        modelcall.ParamSet
}

// thinkingForm is how thinking is requested.
type thinkingForm uint8

const (
	byName thinkingForm = iota // a budget for models of Gemini 2, else a level
	asBudget
	asLevel
	withoutIt
)

// lacking are parameters of chat completions that the API does not have.
var lacking = modelcall.Params("parallel_tool_calls")

// adapt returns the dialect to try after a rejection; false if another one would not help.
func (d dialect) adapt(e *model.Error, req *model.Request) (dialect, bool) {
	if e.Status != http.StatusBadRequest || e.Cause == nil {
		return d, false
	}
	before, message := d, strings.ToLower(e.Cause.Error())
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(message, word) })
	}
	switch {
	case has("thought_signature", "thought signature", "thoughtsignature"):
		if d.skipSignatures {
			d.noOpaque = true
		}
		d.skipSignatures = true
	case has("response_json_schema", "responsejsonschema", "response_schema", "response_mime_type"):
		d.noForm = true
	case has("thinking") && requestsThinking(req):
		switch d.form(req) {
		case asLevel:
			d.thinking = asBudget
		case asBudget:
			d.thinking = asLevel
		}
		if before.thinking != byName { // both were tried
			d.thinking = withoutIt
		}
	default:
		d.dropped |= modelcall.Refused(message, req)
	}
	return d, d != before
}

// form returns how thinking is requested.
func (d dialect) form(req *model.Request) thinkingForm {
	switch {
	case d.thinking != byName:
		return d.thinking
	case budgetOf(req) > 0 || strings.Contains(req.Target.Model, "gemini-2"):
		return asBudget
	}
	return asLevel
}

// budgetOf returns the budget of thinking tokens that a request sets; 0: none.
func budgetOf(req *model.Request) (n int) {
	_ = json.Unmarshal(req.Extra[model.BudgetPlain], &n) // another value is none
	return n
}

func requestsThinking(req *model.Request) bool {
	return modelcall.Effort(req) != "" || budgetOf(req) > 0
}
