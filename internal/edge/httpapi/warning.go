package httpapi

import (
	"net/url"
	"slices"
	"strconv"

	"agentd/internal/base/schema"
	"agentd/internal/base/text"
)

// warningHeader tells a client what of its request had no effect. One header
// line is one warning.
const warningHeader = "X-Svc-Warning"

const (
	maxWarnings    = 10
	maxWarningName = 80 // characters of a name that is repeated in a warning
)

// everyQuery are query parameters that the chain reads on any route.
var everyQuery = []string{"token"}

// warnOfFields reports fields of the body that were ignored.
func (x *exchange) warnOfFields(fields []schema.UnknownField) {
	for _, f := range fields {
		x.warn("unknown field", f.Path, f.Meant)
	}
}

// warnOfParameters reports query parameters that the route does not have.
func (x *exchange) warnOfParameters(sent url.Values, b *binder) {
	known := b.queries
	var unknown []string
	for name := range sent {
		if !slices.Contains(known, name) && !slices.Contains(everyQuery, name) && !b.isMember(name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown[:min(len(unknown), maxWarnings)] {
		x.warn("unknown query parameter", name, text.Nearest(name, known))
	}
}

// isMember reports whether a parameter is a key of one that has keys.
func (b *binder) isMember(name string) bool {
	return slices.ContainsFunc(b.members, func(p parameter) bool { _, ok := p.member(name); return ok })
}

// warn adds a warning. The name is quoted as ASCII, so that nothing in it can
// forge a header.
func (x *exchange) warn(what, name, meant string) {
	h := x.Header()
	if len(h[warningHeader]) >= maxWarnings {
		return
	}
	warning := what + " " + strconv.QuoteToASCII(text.Truncate(name, maxWarningName))
	if meant != "" {
		warning += "; did you mean " + strconv.QuoteToASCII(meant) + "?"
	}
	h[warningHeader] = append(h[warningHeader], warning)
}
