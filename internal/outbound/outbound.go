// Package outbound is the one way out for calls whose address a tenant can
// choose. Every connection is checked when it is dialled, on the address that
// the name resolved to, so that neither a name nor a redirect nor a second
// answer of DNS leads into a private network.
//
// What is refused: every range of the IANA special-purpose registries, IPv6
// outside of global unicast, forms of IPv6 that carry an IPv4 address (mapped
// ones are checked as what they carry), and the metadata services of clouds.
// The operator may allow ranges (AGENTD_EGRESS_ALLOW). There is no proxy, no
// redirect is followed, and headers are bounded; bodies are for callers to
// bound.
package outbound

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"time"
)

// Config of a client. Zero times mean the defaults in brackets.
type Config struct {
	Allow          Allow         // private addresses that may be reached
	DialTimeout    time.Duration // [5 s]
	TLSTimeout     time.Duration // [10 s]
	HeaderTimeout  time.Duration // until an answer begins [none: callers bound it]
	IdleTimeout    time.Duration // how long an unused connection is kept [60 s]
	MaxHeaderBytes int64         // of an answer [64 KiB]
}

// Client makes guarded calls. Safe for concurrent use.
type Client struct {
	transport *http.Transport
	http      *http.Client
}

// New makes a client.
func New(c Config) *Client {
	g := newGuard(c.Allow)
	dialer := &net.Dialer{Timeout: cmp.Or(c.DialTimeout, 5*time.Second), Control: g.control}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		Proxy:                  nil, // one would resolve and dial in our place
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    cmp.Or(c.TLSTimeout, 10*time.Second),
		ResponseHeaderTimeout:  c.HeaderTimeout,
		IdleConnTimeout:        cmp.Or(c.IdleTimeout, time.Minute),
		MaxIdleConns:           512,
		MaxIdleConnsPerHost:    32,
		MaxResponseHeaderBytes: cmp.Or(c.MaxHeaderBytes, 64<<10),
		DisableCompression:     true, // a small body must not become a large one
	}
	return &Client{
		transport: transport,
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// HTTP is the client. A redirect is returned as the answer it is. A refused
// address is an error that wraps a fault.Error of kind Forbidden and code
// EGRESS_DENIED.
func (c *Client) HTTP() *http.Client { return c.http }

// Transport is what the client is made of, for callers that need no more.
func (c *Client) Transport() http.RoundTripper { return c.transport }

// Close closes the connections that are not in use.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// IsDenied says whether a call failed because its address is refused.
func IsDenied(err error) bool { return errors.Is(err, errDenied) }
