// Package outbound makes every call whose address a tenant can choose. A connection
// is checked when it is dialed, on the address that the name resolved to, so that
// neither a name nor a redirect nor a second DNS answer leads into a private network.
//
// Refused are every range of the IANA special-purpose registries, IPv6 outside of
// global unicast, forms of IPv6 that embed an IPv4 address (mapped ones are checked as
// IPv4), and the metadata services of clouds. The operator may allow ranges
// (AGENTD_EGRESS_ALLOW).
//
// No proxy is used, whatever the environment says, because it would resolve and dial
// instead of this package. Redirects are followed only if [Limits] allow them, and
// each is checked like the first address. The client bounds headers; [Client.Do]
// bounds time and body, or the caller does that uses the bare transport for streams.
package outbound

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Config of a client. Zero values mean the defaults in brackets.
type Config struct {
	Allow          Allow         // private addresses that are allowed
	Rules          RulesFunc     // of the tenant in the request's context, which must have one [none]
	DialTimeout    time.Duration // including DNS [5 s]
	TLSTimeout     time.Duration // [10 s]
	HeaderTimeout  time.Duration // until an answer begins [none: the caller bounds it]
	IdleTimeout    time.Duration // how long an unused connection is kept [60 s]
	MaxHeaderBytes int64         // of an answer [64 KiB]
	MaxIdle        int           // unused connections that are kept [512]
	MaxIdlePerHost int           // of one host [32]
	// HTTP1 disables HTTP/2, so that callers of the same host do not share a
	// connection, and unread data stays with the sender.
	HTTP1    bool
	Roots    *x509.CertPool // who may sign certificates [the system's]
	Resolver *net.Resolver  // [the system's]
}

// Client makes guarded calls. Safe for concurrent use.
type Client struct {
	transport ruled
	http      *http.Client
}

// New returns a client.
func New(c Config) *Client { return build(c, newGuard(c.Allow).control) }

// build returns a client that checks each address before it dials.
func build(c Config, control func(network, address string, _ syscall.RawConn) error) *Client {
	dialer := &net.Dialer{Timeout: cmp.Or(c.DialTimeout, 5*time.Second), Control: control, Resolver: c.Resolver}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!c.HTTP1)
	transport := ruled{rules: c.Rules, noUpgrade: noUpgrade{&http.Transport{
		DialContext:            dialer.DialContext,
		Proxy:                  nil,
		Protocols:              &protocols,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots},
		TLSHandshakeTimeout:    cmp.Or(c.TLSTimeout, 10*time.Second),
		ResponseHeaderTimeout:  c.HeaderTimeout,
		IdleConnTimeout:        cmp.Or(c.IdleTimeout, time.Minute),
		MaxIdleConns:           cmp.Or(c.MaxIdle, 512),
		MaxIdleConnsPerHost:    cmp.Or(c.MaxIdlePerHost, 32),
		MaxResponseHeaderBytes: cmp.Or(c.MaxHeaderBytes, 64<<10),
		DisableCompression:     true, // a small body must not become a large one
		// The default window would let each unread answer fill 4 MiB. The connection's
		// own window stays wide, because streams of several tenants share it. A
		// connection that died silently would hang all of them, hence the pings.
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: 256 << 10, MaxDecoderHeaderTableSize: 4 << 10,
			SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second,
		},
	}}}
	return &Client{
		transport: transport,
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// noUpgrade rejects 101 Switching Protocols. No request asks for it, and the body of a
// 101 is the bare connection, which no context closes: reading it could block for
// as long as the other side likes.
type noUpgrade struct{ *http.Transport }

var errSwitched = errors.New("outbound: the host switched protocols without being asked")

// RoundTrip implements http.RoundTripper.
func (t noUpgrade) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body.Close()
		return nil, errSwitched
	}
	return resp, err
}

// HTTP returns an http.Client, for libraries that need one. It returns redirects
// instead of following them. A refused address is an error that wraps a fault.Error of
// kind Forbidden and code EGRESS_DENIED. The caller bounds time and bodies.
func (c *Client) HTTP() *http.Client { return c.http }

// Transport returns the bare transport, for callers that read streams and bound time
// and bodies themselves.
func (c *Client) Transport() http.RoundTripper { return c.transport }

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// IsDenied reports whether a call failed because its address is refused.
func IsDenied(err error) bool { return errors.Is(err, errDenied) }
