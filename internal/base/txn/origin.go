package txn

import "context"

// Origin is the request that statements are sent for. The edge states it, so that
// the database can bound what one company's requests read at once, and name the
// route of a slow statement.
type Origin struct {
	Tenant string // "" before the caller is known
	Route  string // "GET /api/v1/runs"
	Reads  bool   // it only reads: its statements have a deadline and a share of the readers
}

// OriginKey is the key of the context's value, a *Origin.
type OriginKey struct{}

// WithOrigin returns a context whose statements are sent for a request.
func WithOrigin(ctx context.Context, o *Origin) context.Context {
	return context.WithValue(ctx, OriginKey{}, o)
}

var none Origin

// OriginOf returns what the statements of ctx are sent for; an empty Origin
// outside of requests.
func OriginOf(ctx context.Context) *Origin {
	if o, ok := ctx.Value(OriginKey{}).(*Origin); ok {
		return o
	}
	return &none
}
