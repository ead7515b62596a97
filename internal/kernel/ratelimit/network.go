package ratelimit

import (
	"net/netip"
	"strings"
)

// Network returns what counts as one client address: an IPv4 address, or the /64
// network of an IPv6 address, because a host can use all addresses of its /64.
func Network(address string) string {
	if !strings.Contains(address, ":") {
		return address
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return address
	}
	return network.String()
}
