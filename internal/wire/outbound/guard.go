package outbound

import (
	"errors"
	"net/netip"
	"syscall"

	"code.dny.dev/ssrf"

	"agentd/internal/base/fault"
)

var errDenied = errors.New("outbound: the address is refused")

// metadataAddrs are the metadata services of clouds, which serve a machine's secrets.
// An allowed range does not include them; only their exact address allows them.
var metadataAddrs = map[netip.Addr]bool{
	netip.MustParseAddr("169.254.169.254"):    true, // AWS, Azure, Google, and most others
	netip.MustParseAddr("169.254.170.2"):      true, // AWS: containers
	netip.MustParseAddr("169.254.170.23"):     true, // AWS: pods
	netip.MustParseAddr("169.254.0.23"):       true, // Tencent
	netip.MustParseAddr("169.254.42.42"):      true, // Scaleway
	netip.MustParseAddr("169.254.169.250"):    true, // Rancher
	netip.MustParseAddr("168.63.129.16"):      true, // Azure: the host; a public range
	netip.MustParseAddr("100.100.100.200"):    true, // Alibaba
	netip.MustParseAddr("192.0.0.192"):        true, // Oracle
	netip.MustParseAddr("fd00:ec2::254"):      true, // AWS over IPv6
	netip.MustParseAddr("fd00:ec2::23"):       true, // AWS: pods over IPv6
	netip.MustParseAddr("fd20:ce::254"):       true, // Google over IPv6
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"): true, // Oracle over IPv6
	netip.MustParseAddr("fd00:a9fe:a9fe::1"):  true, // Linode over IPv6
	netip.MustParseAddr("fd00:42::42"):        true, // Scaleway over IPv6
	netip.MustParseAddr("fe80::a9fe:a9fe"):    true, // OpenStack over IPv6
}

// guard decides which addresses may be dialled.
type guard struct {
	allow   Allow
	special *ssrf.Guardian
}

func newGuard(allow Allow) *guard {
	return &guard{allow, ssrf.New(ssrf.WithAnyPort())}
}

// control implements net.Dialer.Control: it checks the address before the connection.
func (g *guard) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return denied(errors.New("network " + network))
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return denied(err)
	}
	return g.check(to)
}

// check returns an error for an address that must not be dialed. IPv4-mapped IPv6 is
// checked as IPv4, and a zone does not exempt an address. An allowed range, such as
// that of a NAT64, does not allow the IPv4 addresses embedded in it.
func (g *guard) check(to netip.AddrPort) error {
	addr := to.Addr().Unmap().WithZone("")
	to = netip.AddrPortFrom(addr, to.Port())
	switch {
	case g.allow.allowsExactly(to):
		return nil
	case metadataAddrs[addr]:
		return denied(errors.New("metadata service " + addr.String()))
	}
	inner, embedded := embeddedIPv4(addr)
	if g.allow.allowsRange(addr) {
		if embedded {
			return g.check(netip.AddrPortFrom(inner, to.Port()))
		}
		return nil
	}
	if embedded {
		return denied(errors.New(addr.String() + " embeds " + inner.String()))
	}
	if err := g.special.SafeAddr(addr); err != nil {
		return denied(err)
	}
	return nil
}

// denied returns the error for a refused address. It does not reveal what the name
// resolved to, which would map the operator's network.
func denied(cause error) error {
	return fault.New(fault.Forbidden, "EGRESS_DENIED",
		"The address is not a public one. The operator can allow it with AGENTD_EGRESS_ALLOW.").Because(errors.Join(errDenied, cause))
}
