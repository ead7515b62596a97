package openaiclient

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/internal/kernel/model"
)

// dialect is the form of the fields on which endpoints disagree. A call starts with
// the default one and adapts to a 400 that names the field.
type dialect struct {
	maxCompletionTokens bool // max_completion_tokens instead of max_tokens
	noStreamOptions     bool // without stream_options
	noThinking          bool // without thinkingFields
	skipSignatures      bool // with skippedSignature in calls that have none
	dropped             paramSet
	noCacheKey          bool // without prompt_cache_key
	noOpaque            bool // without what answers came with; see opaqueParts
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
	if more := refused(message, req) &^ d.dropped; more != 0 {
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

const (
	knownFor = 24 * time.Hour // the endpoint may be changed
	maxKnown = 4096
)

// dialects caches the endpoints with another dialect than the default, so that not
// every call is rejected first. It is safe for concurrent use.
type dialects struct {
	mu    sync.RWMutex
	known map[endpointKey]knownDialect
}

type endpointKey struct{ url, model string }

type knownDialect struct {
	dialect
	until time.Time
}

// of returns the dialect to start with.
func (d *dialects) of(t *model.Target, now time.Time) dialect {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if s, ok := d.known[endpointKey{t.BaseURL, t.Model}]; ok && now.Before(s.until) {
		return s.dialect
	}
	return dialect{}
}

// learn records a dialect in which a call succeeded. A rejection alone is not recorded,
// because callers can provoke any message of an endpoint.
func (d *dialects) learn(t *model.Target, style dialect, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[endpointKey]knownDialect{}
	}
	if len(d.known) >= maxKnown {
		clear(d.known) // they are learned again
	}
	d.known[endpointKey{t.BaseURL, t.Model}] = knownDialect{style, now.Add(knownFor)}
}
