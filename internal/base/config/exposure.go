package config

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// Loopback reports whether an address to listen on is reached from this machine
// alone.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// Unencrypted reports whether keys of clients may travel in clear: agentd listens
// beyond this machine, without TLS, and no https address stands in front of it.
func (s *Server) Unencrypted() bool {
	return !Loopback(s.Listen) && s.TLSCert == "" && !strings.HasPrefix(strings.ToLower(s.PublicURL), "https://")
}

// Unencrypted reports whether the token of the nodes would be sent in clear beyond
// this machine: the address names no user of its own and no TLS.
func (b *Bus) Unencrypted() bool {
	for _, one := range b.NATSURL.list() {
		u, err := url.Parse(one)
		if err == nil && u.Scheme == "nats" && u.User == nil && !Loopback(net.JoinHostPort(u.Hostname(), "1")) {
			return true
		}
	}
	return false
}
