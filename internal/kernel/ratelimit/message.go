package ratelimit

import (
	"encoding/binary"
	"errors"
)

// A message has a version, the sending node, and buckets with what that node took
// from each:
//
//	version  node  (kind  window  id  operation  debt)*
//
// Version, kind and window are a byte each. Texts are preceded by their length.
// Lengths and debts (nanoseconds of refilling) are varints.
const (
	messageVersion = 1
	messageSize    = 32 << 10 // from which on another message is started
	maxText        = 1 << 10
)

var errMessage = errors.New("ratelimit: not a valid message")

func greeting(node string) string { return string(appendText([]byte{messageVersion}, node)) }

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// messages encodes buckets into as many messages as needed.
type messages struct {
	head string
	open []byte
	full []string
}

func newMessages(node string) *messages { return &messages{head: greeting(node)} }

func (m *messages) add(k key, debt int64) {
	if len(k.id) > maxText || len(k.operation) > maxText {
		return // read would reject the whole message for it
	}
	if m.open == nil {
		m.open = append(make([]byte, 0, 512), m.head...)
	}
	m.open = append(m.open, byte(k.kind), k.window)
	m.open = appendText(appendText(m.open, k.id), k.operation)
	m.open = binary.AppendUvarint(m.open, uint64(debt))
	if len(m.open) >= messageSize {
		m.full = append(m.full, string(m.open))
		m.open = nil
	}
}

func (m *messages) done() []string {
	if m.open == nil {
		return m.full
	}
	return append(m.full, string(m.open))
}

type entry struct {
	key  key
	debt int64
}

// read decodes a message; one that self sent is returned without entries. The
// texts of the entries share the memory of the message.
func read(message, self string) (node string, entries []entry, err error) {
	if len(message) > 2*messageSize {
		return "", nil, errMessage
	}
	r := reader{rest: message}
	version := r.byte()
	if node = r.text(); version != messageVersion || node == "" {
		return "", nil, errMessage
	}
	if node == self {
		return node, nil, nil
	}
	for r.rest != "" {
		var e entry
		e.key.kind, e.key.window = kind(r.byte()), r.byte()
		e.key.id, e.key.operation = r.text(), r.text()
		debt := r.number()
		if r.bad || e.key.kind == 0 || e.key.kind >= afterKinds || debt == 0 || debt > uint64(maxDebt) {
			return "", nil, errMessage
		}
		e.debt = int64(debt)
		entries = append(entries, e)
	}
	if r.bad {
		return "", nil, errMessage
	}
	return node, entries, nil
}

type reader struct {
	rest string
	bad  bool
}

func (r *reader) fail() { r.bad, r.rest = true, "" }

func (r *reader) byte() (b byte) {
	if r.rest == "" {
		r.fail()
		return 0
	}
	b, r.rest = r.rest[0], r.rest[1:]
	return b
}

func (r *reader) number() uint64 {
	at := min(len(r.rest), binary.MaxVarintLen64)
	n, used := binary.Uvarint([]byte(r.rest[:at]))
	if used <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[used:]
	return n
}

func (r *reader) text() string {
	n := r.number()
	if n > maxText || n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	return text
}
