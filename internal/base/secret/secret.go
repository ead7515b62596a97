// Package secret holds values that must not be seen: it redacts them in logs
// and seals them at rest.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
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

// Box seals values with AES-256-GCM under keys derived from one master key.
type Box struct {
	master []byte
	aead   cipher.AEAD
}

// NewBox returns a Box with the deployment's 32-byte key (AGENTD_SECRET_KEY).
func NewBox(master []byte) (*Box, error) {
	if len(master) != 32 {
		return nil, errors.New("the secret key must be 32 bytes")
	}
	b := &Box{master: master}
	block, err := aes.NewCipher(b.Derive("box"))
	if err != nil {
		return nil, err
	}
	b.aead, err = cipher.NewGCM(block)
	return b, err
}

// Derive returns a 32-byte key for one purpose; the key of one purpose does not
// reveal that of another.
func (b *Box) Derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, b.master, nil, "agentd/"+purpose, 32)
	if err != nil {
		panic(err) // only for absurd lengths
	}
	return key
}

// Seal encrypts; context (a tenant and row id, say) is authenticated with it,
// so that a sealed value cannot be moved to another row.
func (b *Box) Seal(plain []byte, context string) []byte {
	nonce := Random(b.aead.NonceSize())
	return b.aead.Seal(nonce, nonce, plain, []byte(context))
}

// Open decrypts what Seal returned for the same context.
func (b *Box) Open(sealed []byte, context string) ([]byte, error) {
	n := b.aead.NonceSize()
	if len(sealed) < n {
		return nil, errors.New("sealed value is too short")
	}
	return b.aead.Open(nil, sealed[:n], sealed[n:], []byte(context))
}
