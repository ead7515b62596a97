package outbound

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"agentd/internal/base/authz"
)

// Checker checks URLs before they are stored.
type Checker struct {
	guard    *guard
	resolver *net.Resolver
	rules    RulesFunc
}

// NewChecker returns a checker that accepts what a client of the same configuration
// would dial.
func NewChecker(c Config) *Checker {
	return &Checker{newGuard(c.Allow), cmp.Or(c.Resolver, net.DefaultResolver), c.Rules}
}

// lookup bounds the time of a DNS lookup.
const lookup = time.Second

// Check is CheckURL for a URL that must be public when it is stored. A name that does
// not resolve passes: it may resolve later, and every call checks again. Errors:
// fault.Invalid, whose Detail is the message for the field.
func (c *Checker) Check(ctx context.Context, raw string) error {
	if err := CheckURL(raw); err != nil {
		return err
	}
	u, err := url.Parse(raw)
	if err != nil {
		return invalidURL("This is not a URL.")
	}
	host, literal, err := check(u)
	if err != nil {
		return err
	}
	if tenant := authz.TenantOf(ctx); tenant != "" && c.rules != nil {
		rules, err := c.rules(ctx, tenant)
		if err != nil {
			return err
		}
		if !rules.Allows(u) {
			return invalidURL("The egress rules of this company do not allow the host %s; the operator can add it to egress_allowlist.", host)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lookup)
	defer cancel()
	for _, addr := range c.addresses(ctx, host, literal) {
		if c.guard.check(netip.AddrPortFrom(addr, port(u))) != nil {
			return invalidURL("The URL's host is not on the public internet. The operator can allow it with AGENTD_EGRESS_ALLOW.")
		}
	}
	return nil
}

// addresses returns the addresses of a host, none if it does not resolve.
func (c *Checker) addresses(ctx context.Context, host string, literal netip.Addr) []netip.Addr {
	if literal.IsValid() {
		return []netip.Addr{literal}
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // by RFC 6761, whatever a resolver says
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	found, err := c.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	return found
}
