package ratelimit

import (
	"net/netip"
	"strings"
)

// Network gives what is counted as one client address: an IPv4 address, or the
// network of 64 bits of an IPv6 one, of which every host can have all.
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
