package idempotency

import (
	"bytes"
	"errors"

	"agentd/internal/base/secret"
)

// Answer is a response that is stored and sent again.
type Answer struct {
	Status   int
	Media    string // Content-Type
	ETag     string // as in its header
	Location string
	Body     []byte
}

// seal encodes and encrypts an answer: a line for each header, then the body. The
// result is bound to the key and cannot be opened as the answer to another one.
func seal(box *secret.Box, id ID, a *Answer) []byte {
	size := len(a.Media) + len(a.ETag) + len(a.Location) + len(a.Body) + 3
	plain := bytes.NewBuffer(make([]byte, 0, size))
	for _, line := range []string{a.Media, a.ETag, a.Location} {
		plain.WriteString(line)
		plain.WriteByte('\n')
	}
	plain.Write(a.Body)
	return box.Seal(plain.Bytes(), purpose(id))
}

func open(box *secret.Box, r Record) (*Answer, error) {
	plain, err := box.Open(r.Answer, purpose(r.ID))
	if err != nil {
		return nil, err
	}
	parts := bytes.SplitN(plain, []byte{'\n'}, 4)
	if len(parts) != 4 {
		return nil, errors.New("idempotency: a stored answer is truncated")
	}
	return &Answer{Status: r.Status, Media: string(parts[0]), ETag: string(parts[1]), Location: string(parts[2]), Body: parts[3]}, nil
}

func purpose(id ID) string { return "idempotency/" + id.Tenant + "/" + id.Credential + "/" + id.Key }
