package secret

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"
)

// A sealed value is a header, a random nonce and the ciphertext. The header is a
// mark with the version of this format, and the id of the key; it is authenticated
// with the value.
const (
	mark       = "\xa6gs\x01"
	keyIDSize  = 4
	headerSize = len(mark) + keyIDSize
)

// KeyID identifies a secret key without revealing it: eight hexadecimal digits.
type KeyID string

// UnknownKeyError is the failure to open a value that was sealed with a key
// which the Box does not have.
type UnknownKeyError struct{ ID KeyID }

// Error implements error.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("the value is sealed with the secret key %s, which is not configured", e.ID)
}

var (
	errShort  = errors.New("sealed value is too short")
	errSealed = errors.New("sealed value was changed, belongs elsewhere or is sealed with another key")
)

// Box seals values under the deployment's secret keys: with the first, while all
// of them open. Nonces have 24 random bytes (XChaCha20-Poly1305), so that any
// number of values may be sealed under one key. It is safe for concurrent use.
type Box struct{ keys []*key }

// key is one secret key with what is derived from it.
type key struct {
	master []byte
	id     KeyID
	header []byte
	seals  cipher.AEAD
	opened cipher.AEAD // of values from before there were headers: AES-256-GCM
}

// NewBox returns a Box with secret keys of 32 bytes (AGENTD_SECRET_KEY). The
// first one seals.
func NewBox(masters ...[]byte) (*Box, error) {
	if len(masters) == 0 {
		return nil, errors.New("a secret key is needed")
	}
	b := &Box{}
	for _, master := range masters {
		k, err := newKey(master)
		if err != nil {
			return nil, err
		}
		if b.key(k.id) != nil {
			return nil, fmt.Errorf("the secret key %s is there twice", k.id)
		}
		b.keys = append(b.keys, k)
	}
	return b, nil
}

func newKey(master []byte) (*key, error) {
	if len(master) != 32 {
		return nil, errors.New("the secret key must be 32 bytes")
	}
	k := &key{master: master}
	id := k.derive("key id")[:keyIDSize]
	k.id, k.header = KeyID(hex.EncodeToString(id)), append([]byte(mark), id...)
	var err error
	if k.seals, err = chacha20poly1305.NewX(k.derive("seal")); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(k.derive("box"))
	if err != nil {
		return nil, err
	}
	k.opened, err = cipher.NewGCM(block)
	return k, err
}

func (k *key) derive(purpose string) []byte {
	derived, err := hkdf.Key(sha256.New, k.master, nil, "agentd/"+purpose, 32)
	if err != nil {
		panic(err) // only for absurd lengths
	}
	return derived
}

func (b *Box) key(id KeyID) *key {
	for _, k := range b.keys {
		if k.id == id {
			return k
		}
	}
	return nil
}

// KeyIDs returns the ids of the keys, that of the sealing one first.
func (b *Box) KeyIDs() []KeyID {
	ids := make([]KeyID, len(b.keys))
	for i, k := range b.keys {
		ids[i] = k.id
	}
	return ids
}

// Derive returns a 32-byte key for one purpose, derived from the first secret
// key; the key of one purpose does not reveal that of another.
func (b *Box) Derive(purpose string) []byte { return b.keys[0].derive(purpose) }

// DeriveAll returns the keys for one purpose of all secret keys: what was made
// with any of them is still accepted while a secret key is being replaced.
func (b *Box) DeriveAll(purpose string) [][]byte {
	all := make([][]byte, len(b.keys))
	for i, k := range b.keys {
		all[i] = k.derive(purpose)
	}
	return all
}

// Seal encrypts; context (a tenant and row id, say) is authenticated with it,
// so that a sealed value cannot be moved to another row.
func (b *Box) Seal(plain []byte, context string) []byte {
	k := b.keys[0]
	nonceEnd := headerSize + k.seals.NonceSize()
	sealed := make([]byte, nonceEnd, nonceEnd+len(plain)+k.seals.Overhead())
	copy(sealed, k.header)
	copy(sealed[headerSize:], Random(k.seals.NonceSize()))
	return k.seals.Seal(sealed, sealed[headerSize:nonceEnd], plain, k.bound(context))
}

// bound is what is authenticated with a value.
func (k *key) bound(context string) []byte { return append(bytes.Clone(k.header), context...) }

// Open decrypts what Seal returned for the same context. A value from before
// values had a header also opens with one of the former contexts. Errors:
// *UnknownKeyError if the value names a key that the Box does not have.
func (b *Box) Open(sealed []byte, context string, former ...string) ([]byte, error) {
	id, marked := SealedWith(sealed)
	if k := b.key(id); k != nil && len(sealed) >= headerSize+k.seals.NonceSize() {
		nonce, rest := sealed[headerSize:headerSize+k.seals.NonceSize()], sealed[headerSize+k.seals.NonceSize():]
		if plain, err := k.seals.Open(nil, nonce, rest, k.bound(context)); err == nil {
			return plain, nil
		}
	}
	// One of 2^32 values without a header begins like the mark by chance.
	plain, err := b.openFormer(sealed, append(former, context))
	if err != nil && marked && b.key(id) == nil {
		return nil, &UnknownKeyError{id}
	}
	return plain, err
}

func (b *Box) openFormer(sealed []byte, contexts []string) ([]byte, error) {
	size := b.keys[0].opened.NonceSize()
	if len(sealed) < size {
		return nil, errShort
	}
	for _, k := range b.keys {
		for _, context := range contexts {
			if plain, err := k.opened.Open(nil, sealed[:size], sealed[size:], []byte(context)); err == nil {
				return plain, nil
			}
		}
	}
	return nil, errSealed
}

// SealedWith returns the id of the key in a sealed value's header; ok is false
// for a value from before values had one.
func SealedWith(sealed []byte) (id KeyID, ok bool) {
	if len(sealed) < headerSize || string(sealed[:len(mark)]) != mark {
		return "", false
	}
	return KeyID(hex.EncodeToString(sealed[len(mark):headerSize])), true
}

// Header returns what values begin with that the first key seals.
func (b *Box) Header() []byte { return bytes.Clone(b.keys[0].header) }
