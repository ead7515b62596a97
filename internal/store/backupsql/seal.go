package backupsql

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"

	"filippo.io/age"
	"github.com/go-json-experiment/json"

	"agentd/internal/base/secret"
)

const (
	stanzaType = "agentd"
	keyContext = "backup/file key"
)

// sealing seals the key of an age file with a box. It is an age.Recipient.
type sealing struct{ box *secret.Box }

// Wrap implements age.Recipient.
func (s sealing) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	return []*age.Stanza{{
		Type: stanzaType, Args: []string{string(s.box.KeyIDs()[0])}, Body: s.box.Seal(fileKey, keyContext),
	}}, nil
}

// opening is the age.Identity for files of sealing.
type opening struct{ box *secret.Box }

// Unwrap implements age.Identity.
func (o opening) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, s := range stanzas {
		if s.Type != stanzaType {
			continue
		}
		return o.box.Open(s.Body, keyContext)
	}
	return nil, age.ErrIncorrectIdentity
}

// Carried are keys that travel in a file, sealed by a passphrase.
type Carried struct {
	SecretKeys [][]byte `json:"secret_keys"` // the first one seals
	BackupKeys [][]byte `json:"backup_keys"`
}

// MinPassphrase is the least length of a passphrase, in characters: whoever has the
// file can try as many as they like.
const MinPassphrase = 12

// workFactor is the cost of trying a passphrase: about a second, and 256 MB.
const workFactor = 18

func seal(c Carried, passphrase secret.String) (string, error) {
	recipient, err := age.NewScryptRecipient(passphrase.Reveal())
	if err != nil {
		return "", err
	}
	recipient.SetWorkFactor(workFactor)
	plain, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, recipient)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(plain); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(sealed.Bytes()), nil
}

// ErrPassphrase says that a passphrase is not the one of the file.
var ErrPassphrase = errors.New("the passphrase is not the one of this backup, or the backup was changed at its beginning")

// ErrNoKeys says that a file carries no keys.
var ErrNoKeys = errors.New("this backup was made without a passphrase and carries no keys")

// Unseal returns the keys that a file carries.
func (h *Header) Unseal(passphrase secret.String) (c Carried, err error) {
	if h.Carried == "" {
		return c, ErrNoKeys
	}
	sealed, err := base64.StdEncoding.DecodeString(h.Carried)
	if err != nil {
		return c, ErrPassphrase
	}
	identity, err := age.NewScryptIdentity(passphrase.Reveal())
	if err != nil {
		return c, err
	}
	identity.SetMaxWorkFactor(workFactor)
	r, err := age.Decrypt(bytes.NewReader(sealed), identity)
	if err != nil {
		return c, ErrPassphrase
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxLine))
	if err != nil {
		return c, ErrPassphrase
	}
	return c, json.Unmarshal(plain, &c)
}

// errNoKey says that there is no key at all to open a file with.
var errNoKey = errors.New("no key was given")

// KeyError says that a file is sealed with a key that was not given.
type KeyError struct {
	Header *Header
	Cause  error
}

// Error implements error.
func (e *KeyError) Error() string {
	from := "the secret key"
	if e.Header.Key == BackupKey {
		from = "the backup key"
	}
	return fmt.Sprintf("this backup is sealed with %s %s, and no key that was given opens it", from, e.Header.KeyID)
}

// Unwrap returns why.
func (e *KeyError) Unwrap() error { return e.Cause }

// boxOf returns a box with keys of which some may be there twice.
func boxOf(keys [][]byte) (*secret.Box, error) {
	var different [][]byte
	for _, k := range keys {
		if !slices.ContainsFunc(different, func(other []byte) bool { return bytes.Equal(k, other) }) {
			different = append(different, k)
		}
	}
	if len(different) == 0 {
		return nil, errNoKey
	}
	return secret.NewBox(different...)
}
