// Package secret holds values that must not be seen: it redacts them in logs
// and seals them at rest.
package secret

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
)

// Redacted is the printed form of every secret.
const Redacted = "[redacted]"

// String is a secret that prints as [Redacted] in every format; Reveal returns
// the value.
type String struct{ value string }

// New wraps a secret.
func New(value string) String { return String{value} }

// Reveal returns the value, for the one place that needs it.
func (s String) Reveal() string { return s.value }

// Empty reports whether there is no secret.
func (s String) Empty() bool { return s.value == "" }

// Format implements fmt.Formatter for every verb.
func (s String) Format(f fmt.State, _ rune) { fmt.Fprint(f, Redacted) }

// LogValue implements slog.LogValuer.
func (s String) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText implements encoding.TextMarshaler, for JSON and the like.
func (s String) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *String) UnmarshalText(text []byte) error {
	s.value = string(text)
	return nil
}

// NewSigningSecret returns a random secret to sign webhooks with, in the form
// that Standard Webhooks asks for: whsec_ and 32 bytes in base64.
func NewSigningSecret() string { return "whsec_" + base64.StdEncoding.EncodeToString(Random(32)) }

// Random returns n random bytes.
func Random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}
