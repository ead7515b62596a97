package responsesclient

import (
	"net/http"
	"slices"
	"strings"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// dialect is how requests are written for a model. A call starts with the default one and
// adapts to a 400 that names what the model does not take.
type dialect struct {
	noEncrypted bool // without requesting encrypted reasoning, which models that do not think refuse
	noSummary   bool // without summaries of the reasoning, which some organizations may not have
	noReasoning bool // without reasoning settings
	noOpaque    bool // without the reasoning of earlier answers
	noForm      bool // without text.format
	noCacheKey  bool
	dropped     modelcall.ParamSet
}

// lacking are parameters of chat completions that the API does not have.
var lacking = modelcall.Params("stop", "seed", "presence_penalty", "frequency_penalty")

// opaqueWords are of messages about reasoning that came back.
var opaqueWords = []string{
	"invalid_encrypted_content", "could not be verified", "could not be decrypted", "item with id 'rs_", "of type 'reasoning'",
}

// adapt returns the dialect to try after a rejection; false if another one would not help.
func (d dialect) adapt(e *model.Error, req *model.Request) (dialect, bool) {
	if e.Status < http.StatusBadRequest || e.Status >= http.StatusInternalServerError || e.Cause == nil ||
		e.Status == http.StatusTooManyRequests || e.Code == modelcall.CodeAuth {
		return d, false
	}
	before, message := d, strings.ToLower(e.Cause.Error())
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(message, word) })
	}
	refused := has("not support", "unsupported", "unknown", "unrecognized", "not permitted", "unexpected")
	switch {
	case has(opaqueWords...) && sendsOpaque(req):
		d.noOpaque = true
	case has("encrypted content", "encrypted_content", "'include"):
		d.noEncrypted = true
	case has("reasoning.summary", "reasoning summar") && requestsThinking(req):
		d.noSummary = true
	case refused && has("'reasoning", "reasoning.effort' is not", "reasoning is not", "parameter: reasoning", "`reasoning`") &&
		!has("supported values") && requestsThinking(req):
		d.noReasoning = true
	case refused && has("text.format", "json_schema", "json_object"):
		d.noForm = true
	case has("prompt_cache_key"):
		d.noCacheKey = true
	default:
		d.dropped |= modelcall.Refused(message, req)
	}
	return d, d != before
}

func requestsThinking(req *model.Request) bool { return modelcall.Effort(req) != "" }

func sendsOpaque(req *model.Request) bool {
	return slices.ContainsFunc(model.WithoutForeign(req.Messages, &req.Target), func(m model.Message) bool { return m.HasOpaque() })
}
