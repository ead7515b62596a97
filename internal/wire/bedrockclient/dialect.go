package bedrockclient

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// dialect is how requests are written for a model. A call starts with the default one and
// adapts to a refusal that names what the model does not take.
type dialect struct {
	thinking thinkingForm
	noCache  bool // without cache points
	noForm   bool // without outputConfig.textFormat
	noStrict bool // without strict of tools
	noOpaque bool // without the reasoning of earlier answers
	noSystem bool // the system's messages stand with the user's
	noChoice bool // without a choice of tools
	dropped  modelcall.ParamSet
}

// thinkingForm is how thinking is requested of Anthropic's models.
type thinkingForm uint8

const (
	asBudget thinkingForm = iota
	asAdaptive
	withoutIt
)

// lacking are parameters of chat completions that the API does not have.
var lacking = modelcall.Params("seed", "presence_penalty", "frequency_penalty", "parallel_tool_calls")

// adapt returns the dialect to try after a rejection; false if another one would not help.
func (d dialect) adapt(e *model.Error, req *model.Request) (dialect, bool) {
	if e.Status != http.StatusBadRequest && e.Status != http.StatusForbidden || e.Cause == nil {
		return d, false
	}
	before, message := d, strings.ToLower(e.Cause.Error())
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(message, word) })
	}
	switch {
	case has("cachepoint", "prompt caching", "cache_control") && req.CacheKey != "":
		d.noCache = true // also with a 403
	case e.Status == http.StatusForbidden:
	case has("signature", "`thinking` block", "redacted_thinking", "reasoningcontent", "reasoning content") && sendsOpaque(req):
		d.noOpaque = true
	case has("outputconfig", "textformat", "structured output", "json_schema"):
		d.noForm = true
	case has("strict"):
		d.noStrict = true
	case has("system messages", "system prompt"):
		d.noSystem = true
	case has("toolchoice", "tool_choice"):
		d.noChoice = true
	case has("thinking", "adaptive", "budget_tokens", "reasoning") && requestsThinking(req) && d.thinking < withoutIt:
		d.thinking++
	default:
		d.dropped |= modelcall.Refused(strings.NewReplacer("topp", "top_p", "stopsequences", "stop sequences").Replace(message), req)
	}
	return d, d != before
}

// budgetOf returns the budget of thinking tokens that a request sets; 0: none.
func budgetOf(req *model.Request) int {
	var own struct {
		Type   string `json:"type"`
		Budget int    `json:"budget_tokens"`
	}
	if json.Unmarshal(req.Extra[model.BudgetThinking], &own) != nil || own.Type == "disabled" {
		return 0
	}
	return own.Budget
}

func requestsThinking(req *model.Request) bool {
	effort := modelcall.Effort(req)
	return effort != "" && effort != "none" || budgetOf(req) > 0
}

func sendsOpaque(req *model.Request) bool {
	return slices.ContainsFunc(model.WithoutForeign(req.Messages, &req.Target), func(m model.Message) bool { return m.HasOpaque() })
}
