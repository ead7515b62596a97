package outbound

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"agentd/internal/base/fault"
)

const maxURL = 2048

// CheckURL validates a URL of a tenant without resolving its name: every call checks
// the address. Errors: fault.Invalid, whose Detail is the message for the field.
func CheckURL(raw string) error {
	if len(raw) > maxURL {
		return invalidURL("The URL is longer than %d characters.", maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil || strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7F || r == '\\' }) {
		return invalidURL("This is not a URL.")
	}
	_, _, err = check(u)
	return err
}

// port returns the port of a URL.
func port(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

// check is CheckURL for a parsed URL. It returns the host as it is looked up, and the
// address if the host is one.
func check(u *url.URL) (host string, addr netip.Addr, err error) {
	host = u.Hostname()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return host, addr, invalidURL("The URL must begin with https:// or http://.")
	case u.Opaque != "" || host == "":
		return host, addr, invalidURL("The URL names no host.")
	case u.User != nil:
		return host, addr, invalidURL("The URL must not carry a user name or password.")
	case strings.HasSuffix(u.Host, ":"):
		return host, addr, invalidURL("The URL names no port after the colon.")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return host, addr, invalidURL("The URL's port is not between 1 and 65535.")
		}
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) { // other scripts have digits too
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return host, addr, invalidURL("The URL's host is not a name that can be looked up.")
		}
		host = ascii
	}
	if literal, err := netip.ParseAddr(host); err == nil {
		if literal.Zone() != "" {
			return host, addr, invalidURL("The URL's address must not have a zone.")
		}
		return host, literal, nil
	}
	if isNumber(host) {
		return host, addr, invalidURL("The URL's host is a number; write the address as four decimal numbers, or a name.")
	}
	return host, addr, nil
}

// CheckSecureURL is CheckURL for confidential content: the URL must be https, or an
// address that the operator allows and that is therefore in its network.
func CheckSecureURL(raw string, allow Allow) error {
	if err := CheckURL(raw); err != nil {
		return err
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "https" {
		return err
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		to := netip.AddrPortFrom(addr.Unmap(), port(u))
		if allow.allowsExactly(to) || allow.allowsRange(to.Addr()) {
			return nil
		}
	}
	return invalidURL("The URL must begin with https://.")
}

// isNumber reports whether some resolver would read the host as an IPv4 address: its
// last label, without a trailing dot, is a decimal, octal or hexadecimal number. No
// name ends like that.
func isNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	label := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		return strings.Trim(hex, "0123456789abcdefABCDEF") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func invalidURL(format string, args ...any) error {
	return fault.New(fault.Invalid, "", format, args...)
}
