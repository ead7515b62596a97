package outbound

import (
	"encoding/binary"
	"net/netip"
)

var (
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291, 2.5.5.1
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
)

// embeddedIPv4 returns the IPv4 address to which a gateway forwards packets for an
// IPv6 address. It ignores mapped addresses, which the kernel translates. A NAT64 with
// a prefix of its own cannot be distinguished from any other network.
func embeddedIPv4(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	four := func(i int) (netip.Addr, bool) { return netip.AddrFrom4([4]byte(b[i : i+4])), true }
	switch {
	case compatible.Contains(addr) && b[12] != 0, // else :: and ::1, and their neighbours
		translated.Contains(addr), nat64.Contains(addr), nat64Local.Contains(addr):
		return four(12)
	case teredo.Contains(addr):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	case sixToFour.Contains(addr):
		return four(2)
	case binary.BigEndian.Uint32(b[8:])&^0x0200_0000 == 0x5EFE: // ISATAP, RFC 5214
		return four(12)
	}
	return netip.Addr{}, false
}
