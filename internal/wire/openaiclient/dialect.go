package openaiclient

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/internal/kernel/model"
)

// dialect is how an endpoint wants what endpoints disagree on. A call starts
// in the usual one and learns from a 400 that names the field.
type dialect struct {
	maxCompletionTokens bool // max_tokens is refused in favour of max_completion_tokens
	noStreamOptions     bool // stream_options is not known
	noThinking          bool // nothing about thinking is taken
}

// thinkingFields are the fields by which endpoints are told how to think.
var thinkingFields = []string{"reasoning_effort", "reasoning", "thinking", model.BudgetPlain}

// adapt is the dialect to try after a refusal; false where another would not
// help.
func (d dialect) adapt(e *model.Error, req *model.Request) (dialect, bool) {
	if e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity || e.Cause == nil {
		return d, false
	}
	said := e.Cause.Error()
	if !d.maxCompletionTokens && req.MaxTokens > 0 && strings.Contains(said, "max_completion_tokens") {
		d.maxCompletionTokens = true
		return d, true
	}
	if !d.noStreamOptions && strings.Contains(said, "stream_options") {
		d.noStreamOptions = true
		return d, true
	}
	if !d.noThinking && setsThinking(req) && mentionsThinking(said) {
		d.noThinking = true
		return d, true
	}
	return d, false
}

func setsThinking(req *model.Request) bool {
	return slices.ContainsFunc(thinkingFields, func(field string) bool { return has(req, field) })
}

// mentionsThinking says whether an endpoint's words are about thinking, for which
// every kind of server has others.
func mentionsThinking(said string) bool {
	said = strings.ToLower(said)
	return strings.Contains(said, "reasoning") || strings.Contains(said, "thinking") || strings.Contains(said, "effort")
}

const (
	knownFor = time.Hour // who runs the endpoint may change it
	maxKnown = 4096
)

// dialects remembers the endpoints that do not speak the usual one, so that
// not every call is refused first. Safe for concurrent use.
type dialects struct {
	mu    sync.RWMutex
	known map[endpointKey]knownDialect
}

type endpointKey struct{ url, model string }

type knownDialect struct {
	dialect
	until time.Time
}

// of is the dialect to start in.
func (d *dialects) of(t *model.Target, now time.Time) dialect {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if s, ok := d.known[endpointKey{t.BaseURL, t.Model}]; ok && now.Before(s.until) {
		return s.dialect
	}
	return dialect{}
}

// learn notes a dialect in which a call succeeded. What a refused call was
// about counts for nothing: callers can have an endpoint say what they like.
func (d *dialects) learn(t *model.Target, style dialect, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[endpointKey]knownDialect{}
	}
	if len(d.known) >= maxKnown {
		clear(d.known) // they are learnt again
	}
	d.known[endpointKey{t.BaseURL, t.Model}] = knownDialect{style, now.Add(knownFor)}
}
