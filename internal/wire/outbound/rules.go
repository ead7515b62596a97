package outbound

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
)

// Rules are the hosts that the calls of one tenant may reach, beside what is
// allowed to all. The zero value allows every host.
type Rules struct{ all []rule }

// rule allows a host, the names below a domain, or a range of addresses.
type rule struct {
	host   string // in lower case; "": a range
	below  bool   // host is a domain, and the names below it are allowed
	prefix netip.Prefix
	port   uint16 // 0: any
}

// Bounds of a tenant's rules.
const (
	MaxRules     = 200
	maxRuleBytes = 300
)

// RuleError is the failure to read an entry of rules.
type RuleError struct {
	Index  int
	Reason string // continues "egress_allowlist[0]"
}

// Error implements error.
func (e *RuleError) Error() string { return fmt.Sprintf("entry %d %s", e.Index, e.Reason) }

// ParseRules reads entries such as api.example.com, *.example.com:443 and
// 203.0.113.0/24. Addresses that are not public must be among those that the
// operator allows. Errors: *RuleError.
func ParseRules(entries []string, allow Allow) (*Rules, error) {
	r := &Rules{}
	for i, entry := range entries {
		one, reason := parseRule(strings.TrimSpace(entry), allow)
		if reason != "" {
			return nil, &RuleError{i, reason}
		}
		r.all = append(r.all, one)
	}
	return r, nil
}

const ruleForms = "is none of api.example.com, *.example.com, api.example.com:8443, 203.0.113.7 and 203.0.113.0/24"

func parseRule(entry string, allow Allow) (r rule, reason string) {
	if entry == "" || len(entry) > maxRuleBytes {
		return r, ruleForms
	}
	if prefix, err := netip.ParsePrefix(entry); err == nil {
		r.prefix = prefix
		return r, badRange(prefix, allow)
	}
	if addr, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil && addr.Zone() == "" {
		r.prefix = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		return r, badRange(r.prefix, allow)
	}
	if to, err := netip.ParseAddrPort(entry); err == nil && to.Addr().Zone() == "" && to.Port() > 0 {
		r.prefix, r.port = netip.PrefixFrom(to.Addr().Unmap(), to.Addr().Unmap().BitLen()), to.Port()
		if slices.Contains(allow.Hosts, netip.AddrPortFrom(to.Addr().Unmap(), to.Port())) {
			return r, ""
		}
		return r, badRange(r.prefix, allow)
	}
	host, port, hasPort := strings.Cut(entry, ":")
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return r, "has no port between 1 and 65535 after the colon"
		}
		r.port = uint16(n)
	}
	host, r.below = strings.CutPrefix(host, "*.")
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil || name == "" || isNumber(name) || strings.ContainsAny(name, "*/@ ") {
		return r, ruleForms
	}
	r.host = strings.ToLower(name)
	return r, ""
}

// badRange returns why a range may not be allowed; "" if it may. Every address of
// it is public, or among those that the operator allows.
func badRange(p netip.Prefix, allow Allow) string {
	switch {
	case p != p.Masked():
		return "is no network: write it as " + p.Masked().String()
	case p.Addr().Is4In6():
		return "must be written as IPv4"
	case slices.ContainsFunc(allow.Prefixes, func(a netip.Prefix) bool { return a.Bits() <= p.Bits() && a.Contains(p.Addr()) }):
		return ""
	}
	special := ssrf.IPv4DeniedPrefixes
	if p.Addr().Is6() {
		special = ssrf.IPv6DeniedPrefixes
	}
	if slices.ContainsFunc(special, p.Overlaps) || newGuard(Allow{}).check(netip.AddrPortFrom(p.Addr(), 443)) != nil {
		return "has addresses that are not public and that the operator does not allow (AGENTD_EGRESS_ALLOW)"
	}
	return ""
}

// Allows reports whether a URL may be called.
func (r *Rules) Allows(u *url.URL) bool {
	if r == nil || len(r.all) == 0 {
		return true
	}
	host, addr, err := check(u)
	if err != nil {
		return false
	}
	to, host := port(u), strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(r.all, func(one rule) bool {
		if one.port != 0 && one.port != to {
			return false
		}
		switch {
		case one.host == "":
			return addr.IsValid() && one.prefix.Contains(addr.Unmap())
		case one.below:
			return !addr.IsValid() && strings.HasSuffix(host, "."+one.host)
		}
		return !addr.IsValid() && host == one.host
	})
}

// RulesFunc returns the rules of a tenant.
type RulesFunc func(ctx context.Context, tenant string) (*Rules, error)

var errRule = errors.New("outbound: the tenant's rules do not allow the host")

// ruled checks every request, redirects and reused connections included, against
// the rules of the tenant for whom it is made.
type ruled struct {
	noUpgrade
	rules RulesFunc // nil: there are none
}

// RoundTrip implements http.RoundTripper.
func (t ruled) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.rules != nil {
		if err := t.permits(req.Context(), req.URL); err != nil {
			if req.Body != nil {
				req.Body.Close()
			}
			return nil, err
		}
	}
	return t.noUpgrade.RoundTrip(req)
}

// permits returns why the tenant in a context may not call a URL.
func (t ruled) permits(ctx context.Context, u *url.URL) error {
	tenant := authz.TenantOf(ctx)
	if tenant == "" { // a mistake in the program, which must not open a way around the rules
		return fault.New(fault.Internal, "", "The call names no company.").Because(errRule)
	}
	rules, err := t.rules(ctx, tenant)
	if err != nil {
		return err
	}
	if !rules.Allows(u) {
		return fault.New(fault.Forbidden, "EGRESS_DENIED", "The egress rules of this company do not allow %s. "+
			"The operator can add it to egress_allowlist.", u.Hostname()).Because(errRule)
	}
	return nil
}
