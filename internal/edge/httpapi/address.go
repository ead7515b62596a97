package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// proxies are the networks whose X-Forwarded-For is trusted.
type proxies []netip.Prefix

// trusted returns the networks whose X-Forwarded-For is trusted now.
func (s *Server) trusted() proxies {
	if s.proxiesNow != nil {
		return s.proxiesNow()
	}
	return s.proxies
}

func (p proxies) trust(address netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// client returns the network address of the client of a request: the peer, or,
// behind a trusted proxy, the last address of X-Forwarded-For that is not a trusted
// proxy. Anything before that address could be forged. A proxy that sends no
// address, or an invalid one, counts as the client.
func (p proxies) client(r *http.Request) string {
	peer := host(r.RemoteAddr)
	if len(p) == 0 || len(r.Header["X-Forwarded-For"]) == 0 {
		return peer
	}
	last, err := netip.ParseAddr(peer)
	if err != nil || !p.trust(last.Unmap().WithZone("")) {
		return peer
	}
	last = last.Unmap().WithZone("")
	for _, line := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for rest, more := line, true; more; {
			var entry string
			if at := strings.LastIndexByte(rest, ','); at >= 0 {
				rest, entry = rest[:at], rest[at+1:]
			} else {
				entry, more = rest, false
			}
			address, ok := forwarded(entry)
			if !ok {
				return last.String()
			}
			if last = address; !p.trust(address) {
				return last.String()
			}
		}
	}
	return last.String()
}

// forwarded parses an address, which some proxies send with a port.
func forwarded(text string) (netip.Addr, bool) {
	text = strings.Trim(text, " \t")
	address, err := netip.ParseAddr(text)
	if err != nil {
		withPort, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}, false
		}
		address = withPort.Addr()
	}
	return address.Unmap().WithZone(""), true
}

// host returns an address without its port.
func host(address string) string {
	h, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return h
}
