// Package outbound is the one way out for calls whose address a tenant can
// choose. Every connection is checked when it is dialled, on the address that
// the name resolved to, so that neither a name nor a redirect nor a second
// answer of DNS leads into a private network.
//
// What is refused: every range of the IANA special-purpose registries, IPv6
// outside of global unicast, forms of IPv6 that carry an IPv4 address (mapped
// ones are checked as what they carry), and the metadata services of clouds.
// The operator may allow ranges (AGENTD_EGRESS_ALLOW).
//
// There is no proxy, whatever the environment says: it would resolve and dial
// in our place. No redirect is followed unless [Limits] ask for it, and each is
// checked like the first address. Headers are bounded by the client; the time
// and the body by [Client.Do], or by those who use the bare transport because
// their answers are streams.
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
	Allow          Allow         // private addresses that may be reached
	DialTimeout    time.Duration // looking the name up included [5 s]
	TLSTimeout     time.Duration // [10 s]
	HeaderTimeout  time.Duration // until an answer begins [none: callers bound it]
	IdleTimeout    time.Duration // how long an unused connection is kept [60 s]
	MaxHeaderBytes int64         // of an answer [64 KiB]
	MaxIdle        int           // unused connections that are kept [512]
	MaxIdlePerHost int           // of one host [32]
	// HTTP1 speaks nothing newer, so that what one caller does to its connection
	// is never felt by another with the same host, and that what is not read
	// stays with the sender.
	HTTP1    bool
	Roots    *x509.CertPool // who may sign certificates [the system's]
	Resolver *net.Resolver  // [the system's]
}

// Client makes guarded calls. Safe for concurrent use.
type Client struct {
	transport noUpgrade
	http      *http.Client
}

// New makes a client.
func New(c Config) *Client { return build(c, newGuard(c.Allow).control) }

// build makes a client on a check of each address that is about to be dialled.
func build(c Config, control func(network, address string, _ syscall.RawConn) error) *Client {
	dialer := &net.Dialer{Timeout: cmp.Or(c.DialTimeout, 5*time.Second), Control: control, Resolver: c.Resolver}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!c.HTTP1)
	transport := noUpgrade{&http.Transport{
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
		// The usual window would let each answer that nobody reads fill 4 MiB. The
		// connection's own stays wide: streams of several tenants share it. One that
		// died silently would take all of them along, hence the pings.
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: 256 << 10, MaxDecoderHeaderTableSize: 4 << 10,
			SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second,
		},
	}}
	return &Client{
		transport: transport,
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// noUpgrade is a transport whose answers are answers. Nobody here asks to switch
// protocols, and the body of a 101 is the bare connection, which no context
// ends: who reads it waits for as long as the other side likes.
type noUpgrade struct{ *http.Transport }

var errSwitched = errors.New("outbound: the host switched protocols without being asked")

// RoundTrip implements http.RoundTripper.
func (a noUpgrade) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := a.Transport.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body.Close()
		return nil, errSwitched
	}
	return resp, err
}

// HTTP is the client, for libraries that want one. A redirect is returned as
// the answer it is. A refused address is an error that wraps a fault.Error of
// kind Forbidden and code EGRESS_DENIED. Time and bodies are the caller's to
// bound.
func (c *Client) HTTP() *http.Client { return c.http }

// Transport is what the client is made of, for callers whose answers are
// streams, and who bound time and bodies themselves.
func (c *Client) Transport() http.RoundTripper { return c.transport }

// Close closes the connections that are not in use.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// IsDenied says whether a call failed because its address is refused.
func IsDenied(err error) bool { return errors.Is(err, errDenied) }
