package outbound

import (
	"context"
	"net"
	"net/url"
)

// Dial connects to a host and port, for protocols other than HTTP. It checks the
// address that is dialed, and the rules of the tenant in the context, as every other
// call. Errors: those of [net.Dialer], and denials ([IsDenied]).
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.transport.rules != nil {
		if err := c.transport.permits(ctx, &url.URL{Scheme: "https", Host: address}); err != nil {
			return nil, err
		}
	}
	return c.transport.DialContext(ctx, network, address)
}
