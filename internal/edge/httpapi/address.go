package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// proxies are the networks whose word about who the client is counts.
type proxies []netip.Prefix

func (p proxies) trust(address netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// client is the network address of who sent a request: whoever connected, or,
// where that is a proxy of the operator's, the last address of X-Forwarded-For
// that is none. What stands before it anybody could have written. A proxy that
// names nobody, or what is no address, is itself the client.
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
			var one string
			if at := strings.LastIndexByte(rest, ','); at >= 0 {
				rest, one = rest[:at], rest[at+1:]
			} else {
				one, more = rest, false
			}
			address, ok := forwarded(one)
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

// forwarded reads an address, which some proxies send with its port.
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

// host is an address without its port.
func host(address string) string {
	h, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return h
}
