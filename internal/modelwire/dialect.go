package modelwire

import (
	"net/http"
	"strings"

	"agentd/internal/model"
)

// dialect is how an endpoint wants what endpoints disagree on. A call starts
// in the usual one and learns from a 400 that names the field.
type dialect struct {
	maxCompletionTokens bool // max_tokens is refused in favour of max_completion_tokens
	noStreamOptions     bool // stream_options is not known
}

// after is the dialect to try after a refusal; false where another would not
// help.
func (d dialect) after(e *model.Error, req *model.Request) (dialect, bool) {
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
	return d, false
}
