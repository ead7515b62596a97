package anthropicclient

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// dialect is how requests are written for a model. A call starts with the default one and
// adapts to a 400 that names what the model does not take.
type dialect struct {
	thinking  thinkingForm
	noDisplay bool // without thinking.display
	noEffort  bool // without output_config.effort
	noForm    bool // without output_config.format
	noStrict  bool // without strict of tools
	noOpaque  bool // without the thinking of earlier answers
	maxTokens int  // the model's largest output cap; 0: not known
	dropped   modelcall.ParamSet
}

// thinkingForm is how thinking is requested.
type thinkingForm uint8

const (
	asRequested  thinkingForm = iota // a budget as a budget, an effort as adaptive thinking
	asBudget                         // models before adaptive thinking
	asAdaptive                       // models that take no budget
	withoutIt                        // models that do not think
	withoutItNow                     // this request, because of its history
)

// lacking are parameters of chat completions that the API does not have.
var lacking = modelcall.Params("seed", "presence_penalty", "frequency_penalty")

var capOfTokens = regexp.MustCompile(`max_tokens: \d+ > (\d+)`)

// adapt returns the dialect to try after a rejection; false if another one would not help.
func (d dialect) adapt(e *model.Error, req *model.Request) (dialect, bool) {
	if e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity || e.Cause == nil {
		return d, false
	}
	before, message := d, strings.ToLower(e.Cause.Error())
	mentions := func(words ...string) bool {
		for _, word := range words {
			if strings.Contains(message, word) {
				return true
			}
		}
		return false
	}
	switch found := capOfTokens.FindStringSubmatch(message); {
	case len(found) == 2 && d.maxTokens == 0:
		d.maxTokens, _ = strconv.Atoi(found[1]) // digits; too many are no cap
	case mentions("signature", "`thinking` block", "redacted_thinking") && sendsOpaque(req):
		d.noOpaque = true
	case mentions("output_config.format", "output_format", "json_schema", "output_config.schema"):
		d.noForm = true
	case mentions("strict"):
		d.noStrict = true
	case mentions("display"):
		d.noDisplay = true
	case mentions("effort", "output_config"):
		d.noEffort = true
	case mentions("expected `thinking`", "must start with a thinking block"):
		d.thinking = withoutItNow
	case mentions("thinking", "adaptive", "budget_tokens") && requestsThinking(req):
		switch asked := requested(req); {
		case d.thinking == asRequested && asked == asAdaptive:
			d.thinking = asBudget
		case d.thinking == asRequested:
			d.thinking = asAdaptive
		case d.thinking != withoutItNow:
			d.thinking = withoutIt
		}
	default:
		d.dropped |= modelcall.Refused(message, req)
	}
	return d, d != before
}

// requested returns the form in which a request has the model think.
func requested(req *model.Request) thinkingForm {
	if modelcall.Has(req, model.BudgetThinking) {
		return asBudget
	}
	return asAdaptive
}

func requestsThinking(req *model.Request) bool {
	effort := modelcall.Effort(req)
	return effort != "" && effort != "none" || modelcall.Has(req, model.BudgetThinking)
}

func sendsOpaque(req *model.Request) bool {
	for _, m := range model.WithoutForeign(req.Messages, &req.Target) {
		if m.HasOpaque() {
			return true
		}
	}
	return false
}
