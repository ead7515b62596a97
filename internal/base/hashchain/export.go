package hashchain

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxLine bounds one line of an export.
const maxLine = 4 << 20

// SignedHead is a head with an Ed25519 signature over [SignedHead.Text].
type SignedHead struct {
	Head

	TenantID  string `json:"tenant_id"`  // whose chain it is
	PublicKey string `json:"public_key"` // in base64
	Signature string `json:"signature"`  // in base64
}

// Text is what the signature of a head is of.
func (h SignedHead) Text() []byte {
	return []byte("agentd ledger " + h.TenantID + " " + strconv.FormatInt(h.Seq, 10) + " " + h.Hash)
}

// Sign returns the head of a tenant's chain with its signature.
func Sign(key ed25519.PrivateKey, tenant string, head Head) SignedHead {
	h := SignedHead{Head: head, TenantID: tenant, PublicKey: base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))}
	h.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, h.Text()))
	return h
}

// verify reports whether the signature is that of one key, in base64.
func (h SignedHead) verify(key string) bool {
	public, err := base64.StdEncoding.DecodeString(key)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return false
	}
	signature, err := base64.StdEncoding.DecodeString(h.Signature)
	return err == nil && ed25519.Verify(public, h.Text(), signature)
}

// BrokenError is the error of a chain that is not whole.
type BrokenError struct {
	Seq    int64 // of the first entry that does not fit; 0 where none can be named
	Reason string
}

func (e *BrokenError) Error() string { return e.Reason }

func broken(seq int64, format string, args ...any) error {
	return &BrokenError{seq, fmt.Sprintf(format, args...)}
}

// ErrEmpty is returned for an export without a line.
var ErrEmpty = errors.New("the file is empty: an export has at least the line of its head")

// Expect is what a reader of an export knows from elsewhere.
type Expect struct {
	Head string // hash of the head; "": not known
	Key  string // public key of its signature, in base64; "": the signature is not checked
}

// Verify reads an export, entries oldest first and then its head, and returns the
// head. Errors: [BrokenError] for a chain that is not whole, and any other for a text
// that is no export.
func Verify(r io.Reader, want Expect) (Head, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	var at Head
	buffer := make([]byte, 0, 4<<10)
	for n := 1; lines.Scan(); n++ {
		line := jsontext.Value(lines.Bytes())
		if next, ok := followCanonical(at, line, &buffer); ok {
			at = next
			continue
		}
		head, err := readHead(line)
		switch {
		case err != nil:
			return at, fmt.Errorf("line %d: %w", n, err)
		case head != nil:
			if lines.Scan() {
				return at, broken(0, "line %d comes after the head, which must be the last line", n+1)
			}
			return at, cmpHead(at, *head, want)
		}
		if at, err = follow(at, line); err != nil {
			return at, err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return at, fmt.Errorf("the line after entry %d is longer than %d bytes", at.Seq, maxLine)
	case err != nil:
		return at, err
	case at.Seq == 0:
		return at, ErrEmpty
	}
	return at, broken(at.Seq+1, "the export ends after entry %d without the line of its head: it was cut off", at.Seq)
}

// followCanonical returns the head after the entry of a line that is written as it was
// hashed, but for its hash, as in this service's exports. Not ok: the line is written
// otherwise, or does not fit, which follow finds out.
func followCanonical(at Head, line jsontext.Value, buffer *[]byte) (next Head, ok bool) {
	var e struct {
		Seq      int64  `json:"seq"`
		PrevHash string `json:"prev_hash"`
		Hash     string `json:"hash"`
	}
	// A name that stands twice does not have the hash either.
	if json.Unmarshal(line, &e, jsontext.AllowDuplicateNames(true)) != nil || e.Seq != at.Seq+1 || e.PrevHash != at.Hash {
		return at, false
	}
	text := append(append(append((*buffer)[:0], `,"hash":"`...), e.Hash...), '"')
	member := len(text)
	from := bytes.Index(line, text)
	if from < 0 {
		return at, false
	}
	text = append(append(text, line[:from]...), line[from+member:]...)
	*buffer = text
	sum := sha256.Sum256(text[member:])
	return Head{e.Seq, e.Hash}, hex.EncodeToString(sum[:]) == e.Hash
}

// readHead returns the head of a line; nil for a line with an entry.
func readHead(line jsontext.Value) (*SignedHead, error) {
	var l struct {
		Head *SignedHead `json:"head"`
	}
	// Names that stand twice are refused by follow, which knows the entry.
	err := json.Unmarshal(line, &l, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return nil, fmt.Errorf("it is not an entry: %w", err)
	}
	return l.Head, nil
}

func cmpHead(at Head, head SignedHead, want Expect) error {
	switch {
	case head.Seq != at.Seq:
		return broken(min(head.Seq, at.Seq)+1, "the head names entry %d, and the last entry is %d", head.Seq, at.Seq)
	case head.Hash != at.Hash:
		return broken(at.Seq, "the head's hash is not that of entry %d", at.Seq)
	case want.Head != "" && want.Head != at.Hash:
		return broken(0, "the head is %s, and not the expected %s", at.Hash, want.Head)
	case want.Key != "" && !head.verify(want.Key):
		return broken(0, "the head is not signed by the key %s", want.Key)
	}
	return nil
}

// follow returns the head after the entry of a line.
func follow(at Head, line jsontext.Value) (Head, error) {
	next := at.Seq + 1
	var e struct {
		Seq      int64  `json:"seq"`
		PrevHash string `json:"prev_hash"`
		Hash     string `json:"hash"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return at, broken(next, "entry %d has a name twice: %v", next, err)
		}
		return at, fmt.Errorf("entry %d cannot be read: %w", next, err)
	}
	sum, err := sumLine(line)
	switch {
	case err != nil:
		return at, fmt.Errorf("entry %d cannot be read: %w", next, err)
	case e.Seq != next:
		return at, broken(next, "entry %d is missing: after entry %d comes entry %d", next, at.Seq, e.Seq)
	case e.PrevHash != at.Hash:
		return at, broken(next, "entry %d does not follow the entry before it: its prev_hash is another", next)
	case sum != e.Hash:
		return at, broken(next, "entry %d was changed: its hash is not that of its content", next)
	}
	return Head{e.Seq, e.Hash}, nil
}

// sumLine returns the hash of an entry as JSON, whatever members it has.
func sumLine(line jsontext.Value) (string, error) {
	in := jsontext.NewDecoder(bytes.NewReader(line))
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out)
	if _, err := in.ReadToken(); err != nil {
		return "", err
	}
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return "", err
	}
	for in.PeekKind() == '"' {
		name, err := in.ReadValue()
		if err != nil {
			return "", err
		}
		keep := string(name) != `"hash"`
		name = bytes.Clone(name)
		value, err := in.ReadValue()
		if err != nil {
			return "", err
		}
		if !keep {
			continue
		}
		if err := errors.Join(enc.WriteValue(name), enc.WriteValue(value)); err != nil {
			return "", err
		}
	}
	if err := enc.WriteToken(jsontext.EndObject); err != nil {
		return "", err
	}
	text := jsontext.Value(bytes.TrimSpace(out.Bytes()))
	if err := text.Canonicalize(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
