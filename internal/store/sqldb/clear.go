package sqldb

import (
	"crypto/tls"
	"net/netip"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Unencrypted reports whether the connection to a PostgreSQL server may go over a
// network in clear: without TLS, or with TLS only if the server offers it, which
// whoever sits in between can prevent. It reports false for SQLite and for a URL that
// cannot be read.
func Unencrypted(url string) bool {
	if url == "" {
		return false
	}
	pc, err := pgx.ParseConfig(url)
	if err != nil {
		return false
	}
	inClear := func(host string, config *tls.Config) bool {
		addr, err := netip.ParseAddr(host)
		local := strings.HasPrefix(host, "/") || host == "localhost" || err == nil && addr.Unmap().IsLoopback()
		return config == nil && !local
	}
	for _, other := range pc.Fallbacks {
		if inClear(other.Host, other.TLSConfig) {
			return true
		}
	}
	return inClear(pc.Host, pc.TLSConfig)
}
