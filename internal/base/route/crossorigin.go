package route

import "context"

// OriginAllower is the answer to a request of a page in a browser.
type OriginAllower interface {
	// AllowOrigin lets pages of the request's origin read the answer.
	AllowOrigin()
}

// OriginKey is the key of the context's value, an OriginAllower.
type OriginKey struct{}

// AllowOrigin lets the page that sent the request of ctx read the answer, refusals
// included. Rows that are CrossOrigin call it before they refuse anything else, once they
// know that the page's origin may call them. Cookies never go with such requests.
func AllowOrigin(ctx context.Context) {
	if o, ok := ctx.Value(OriginKey{}).(OriginAllower); ok {
		o.AllowOrigin()
	}
}
