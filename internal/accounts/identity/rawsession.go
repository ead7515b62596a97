package identity

import (
	"crypto/sha256"
	"fmt"
	"log/slog"

	"agentd/internal/base/secret"
)

// RawSession is the value of a browser session's cookie: svs_<12>_<32>, letters
// and digits. Its form differs from a key's, so that neither is ever accepted
// as the other. It is never stored; in logs it prints redacted.
type RawSession string

const (
	sessionMark      = "svs_"
	sessionPrefixLen = 12
	rawSessionLen    = len(sessionMark) + sessionPrefixLen + 1 + secretLen
)

// NewRawSession returns a random token.
func NewRawSession() RawSession {
	return RawSession(sessionMark + randomText(sessionPrefixLen) + "_" + randomText(secretLen))
}

// ParseRawSession parses a token; ok reports whether s has the form of one.
func ParseRawSession(s string) (raw RawSession, ok bool) {
	if !hasForm(s, sessionMark, sessionPrefixLen) {
		return "", false
	}
	return RawSession(s), true
}

// Prefix returns the part by which the session is looked up.
func (r RawSession) Prefix() string {
	return string(r[len(sessionMark) : len(sessionMark)+sessionPrefixLen])
}

// Hash returns the hash of the secret part, which is what is stored.
func (r RawSession) Hash() Hash { return sha256.Sum256([]byte(r[rawSessionLen-secretLen:])) }

// Format implements fmt.Formatter for every verb.
func (r RawSession) Format(f fmt.State, _ rune) { fmt.Fprint(f, secret.Redacted) }

// LogValue implements slog.LogValuer.
func (r RawSession) LogValue() slog.Value { return slog.StringValue(secret.Redacted) }
