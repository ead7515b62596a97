package outbound

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Allow lists the private addresses that the operator allows.
type Allow struct {
	Prefixes []netip.Prefix
	Hosts    []netip.AddrPort
}

// ParseAllow reads the setting AGENTD_EGRESS_ALLOW: CIDRs, addresses and
// address:port pairs, separated by commas. Empty: nothing.
func ParseAllow(setting string) (Allow, error) {
	var a Allow
	for item := range strings.SplitSeq(setting, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		if err := a.add(item); err != nil {
			return Allow{}, fmt.Errorf("AGENTD_EGRESS_ALLOW: %q is neither a CIDR like 10.0.0.0/8 nor an address:port like "+
				"127.0.0.1:9100: %w", item, err)
		}
	}
	return a, nil
}

func (a *Allow) add(item string) error {
	if strings.Contains(item, "/") {
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return err
		}
		if p.Addr().Is4In6() {
			return fmt.Errorf("write it as IPv4")
		}
		if p != p.Masked() {
			return fmt.Errorf("the network is %s", p.Masked())
		}
		a.Prefixes = append(a.Prefixes, p)
		return nil
	}
	if ip, err := netip.ParseAddr(item); err == nil {
		ip = ip.Unmap()
		if ip.Zone() != "" {
			return fmt.Errorf("zones are not supported")
		}
		a.Prefixes = append(a.Prefixes, netip.PrefixFrom(ip, ip.BitLen()))
		return nil
	}
	host, err := netip.ParseAddrPort(item)
	if err != nil {
		return err
	}
	if host.Addr().Zone() != "" {
		return fmt.Errorf("zones are not supported")
	}
	a.Hosts = append(a.Hosts, netip.AddrPortFrom(host.Addr().Unmap(), host.Port()))
	return nil
}

// String lists what is allowed, for the log at startup.
func (a Allow) String() string {
	var items []string
	for _, p := range a.Prefixes {
		items = append(items, p.String())
	}
	for _, h := range a.Hosts {
		items = append(items, h.String())
	}
	return strings.Join(items, ",")
}

// allowsExactly reports whether exactly this address, or this address and port, is
// allowed.
func (a Allow) allowsExactly(to netip.AddrPort) bool {
	return slices.Contains(a.Hosts, to) ||
		slices.ContainsFunc(a.Prefixes, func(p netip.Prefix) bool { return p.IsSingleIP() && p.Addr() == to.Addr() })
}

// allowsRange reports whether an allowed range contains the address.
func (a Allow) allowsRange(addr netip.Addr) bool {
	return slices.ContainsFunc(a.Prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}
