package model

import (
	"net/url"
	"strconv"
	"strings"
)

// maxEndpoint is how long the address of an endpoint may be.
const maxEndpoint = 2048

// NormalizeEndpoint returns the address of an endpoint in the one form in which
// two are compared: scheme and host in lower case, no port that the scheme
// implies, no slash at the end, and without what people paste after the part
// that ends in /v1. It returns false for anything else, and for every form that
// two parsers could read as two addresses: user names, queries, fragments,
// escapes, dot segments, empty segments, backslashes, control characters, and
// hosts that are not ASCII or that look like numbers in another notation.
//
// Two endpoints are the same if their normal forms are equal. A key is sent to
// the normal form that was stored with it, never to an address that another
// request names.
func NormalizeEndpoint(raw string) (string, bool) {
	if raw == "" || len(raw) > maxEndpoint || strings.ContainsFunc(raw, invalidRune) {
		return "", false
	}
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Opaque != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(raw, "#") {
		return "", false
	}
	scheme := strings.ToLower(u.Scheme)
	usual, known := map[string]string{"http": "80", "https": "443"}[scheme]
	host := strings.ToLower(u.Hostname())
	if !known || host == "" || strings.HasSuffix(host, ".") || strings.Contains(host, "..") || strings.HasSuffix(u.Host, ":") {
		return "", false
	}
	if strings.Contains(host, ":") { // an IPv6 address
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return "", false
		}
		if port != usual {
			host += ":" + port
		}
	}
	path := u.Path
	for trimmed := ""; path != trimmed; {
		trimmed, path = path, trimBase(path)
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if segment == "." || segment == ".." || segment == "" && path != "" {
			return "", false
		}
	}
	return scheme + "://" + host + path, true
}

// invalidRune reports whether a character must not occur, or not unescaped, in
// the address of an endpoint.
func invalidRune(r rune) bool {
	return r <= ' ' || r >= 0x7F || strings.ContainsRune("\\%;@\"'<>^`{|}", r)
}

// SameEndpoint reports whether two addresses are those of one endpoint. An
// invalid address equals no other, not even itself.
func SameEndpoint(a, b string) bool {
	x, ok := NormalizeEndpoint(a)
	y, too := NormalizeEndpoint(b)
	return ok && too && x == y
}
