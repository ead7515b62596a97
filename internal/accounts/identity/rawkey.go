package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"

	"agentd/internal/base/secret"
)

// RawKey is an API key as its holder sends it: svc_<8>_<32>, letters and
// digits. It is shown once, in the response that creates it, and never stored;
// in logs and messages it prints redacted.
type RawKey string

const (
	keyMark    = "svc_"
	prefixLen  = 8
	secretLen  = 32
	rawKeyLen  = len(keyMark) + prefixLen + 1 + secretLen
	keyLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// Hash is the SHA-256 of a key's secret part.
type Hash [sha256.Size]byte

// NewRawKey returns a random key.
func NewRawKey() RawKey {
	return RawKey(keyMark + randomText(prefixLen) + "_" + randomText(secretLen))
}

// ParseRawKey parses a key; ok reports whether s has the form of one.
func ParseRawKey(s string) (key RawKey, ok bool) {
	if !hasForm(s, keyMark, prefixLen) {
		return "", false
	}
	return RawKey(s), true
}

// hasForm reports whether s is the mark, a prefix of that many letters and
// digits, _ and a secret of letters and digits.
func hasForm(s, mark string, prefixLen int) bool {
	if len(s) != len(mark)+prefixLen+1+secretLen || s[:len(mark)] != mark || s[len(mark)+prefixLen] != '_' {
		return false
	}
	for i := len(mark); i < len(s); i++ {
		if c := s[i]; !letterOrDigit(c) && i != len(mark)+prefixLen {
			return false
		}
	}
	return true
}

// Prefix returns the part by which the key is looked up.
func (k RawKey) Prefix() string { return string(k[len(keyMark) : len(keyMark)+prefixLen]) }

// Hash returns the hash of the secret part, which is what is stored.
func (k RawKey) Hash() Hash { return sha256.Sum256([]byte(k[rawKeyLen-secretLen:])) }

// Format implements fmt.Formatter for every verb.
func (k RawKey) Format(f fmt.State, _ rune) { fmt.Fprint(f, secret.Redacted) }

// LogValue implements slog.LogValuer.
func (k RawKey) LogValue() slog.Value { return slog.StringValue(secret.Redacted) }

func letterOrDigit(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// randomText returns n random letters or digits, each equally likely.
func randomText(n int) string {
	const fair = 256 - 256%len(keyLetters)
	out := make([]byte, 0, n)
	var pool [64]byte
	for {
		rand.Read(pool[:])
		for _, b := range pool {
			if int(b) >= fair {
				continue
			}
			if out = append(out, keyLetters[int(b)%len(keyLetters)]); len(out) == n {
				return string(out)
			}
		}
	}
}
