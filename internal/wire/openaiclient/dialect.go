package openaiclient

import (
	"net/http"
	"slices"
	"strings"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// dialect is the form of the fields on which endpoints disagree. A call starts with
// the default one and adapts to a 400 that names the field.
type dialect struct {
	maxCompletionTokens bool // max_completion_tokens instead of max_tokens
	noStreamOptions     bool // without stream_options
	noThinking          bool // without thinkingFields
	skipSignatures      bool // with skippedSignature in calls that have none
	dropped             modelcall.ParamSet
	noCacheKey          bool // without prompt_cache_key
	noOpaque            bool // without what answers came with; see opaqueParts
	noFiles             bool // files and recordings are named in words
}

// thinkingFields are the fields that control reasoning.
var thinkingFields = []string{"reasoning_effort", "reasoning", "thinking", model.BudgetPlain}

// adapt returns the dialect to try after a rejection; false if another one would not
// help.
func (d dialect) adapt(e *model.Error, req *model.Request) (dialect, bool) {
	if e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity || e.Cause == nil {
		return d, false
	}
	message := e.Cause.Error()
	if !d.maxCompletionTokens && req.MaxTokens > 0 && strings.Contains(message, "max_completion_tokens") {
		d.maxCompletionTokens = true
		return d, true
	}
	if !d.noStreamOptions && strings.Contains(message, "stream_options") {
		d.noStreamOptions = true
		return d, true
	}
	if !d.noCacheKey && req.CacheKey != "" && strings.Contains(message, "prompt_cache_key") {
		d.noCacheKey = true
		return d, true
	}
	if !d.skipSignatures && sendsCalls(req) && strings.Contains(message, "thought_signature") {
		d.skipSignatures = true
		return d, true
	}
	if !d.noOpaque && sendsOpaque(req) && mentionsOpaque(message) {
		d.noOpaque = true
		return d, true
	}
	if !d.noFiles && sendsFiles(req) && mentionsFiles(message) {
		d.noFiles = true
		return d, true
	}
	if more := modelcall.Refused(message, req) &^ d.dropped; more != 0 {
		d.dropped |= more
		return d, true
	}
	if !d.noThinking && setsThinking(req) && mentionsThinking(message) {
		d.noThinking = true
		return d, true
	}
	return d, false
}

func setsThinking(req *model.Request) bool {
	return slices.ContainsFunc(thinkingFields, func(field string) bool { return has(req, field) })
}

// mentionsThinking reports whether an endpoint's message is about reasoning, which
// each server words differently.
func mentionsThinking(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "reasoning") || strings.Contains(message, "thinking") || strings.Contains(message, "effort")
}

// droppedOf returns the parameters of a request that were left out.
func (d dialect) droppedOf(req *model.Request) []string {
	dropped := d.dropped.DroppedOf(req)
	if d.noFiles && sendsFiles(req) {
		dropped = append(dropped, "files")
	}
	for _, field := range thinkingFields {
		if d.noThinking && has(req, field) {
			dropped = append(dropped, field)
		}
	}
	return dropped
}
