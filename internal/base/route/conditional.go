package route

import "context"

// Editable is an answer of a Conditional row that shows more than what clients
// change, such as when a schedule fired last. An If-Match looks at what Editable
// returns only, so that a client's change is not refused because of the rest.
type Editable interface {
	// Editable returns the part of the answer that clients change. It is rendered
	// as JSON; nil where there is none yet.
	Editable() any
}

// Matcher is a request with an If-Match.
type Matcher interface {
	// Match returns fault.Precondition if the request was meant for another state
	// than current.
	Match(current any) error
}

// MatcherKey is the key of the context's value, a Matcher.
type MatcherKey struct{}

// Match refuses the request of ctx if it was meant for another state than current:
// the answer that the row's GET gives of it, or its Editable part. A Conditional
// write calls it in its transaction, once the state is locked and before it is
// changed. Errors: fault.Precondition.
func Match(ctx context.Context, current any) error {
	if m, ok := ctx.Value(MatcherKey{}).(Matcher); ok {
		return m.Match(current)
	}
	return nil
}
