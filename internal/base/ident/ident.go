// Package ident creates and checks identifiers. Ids are UUIDs of version 7: they
// sort by their creation time, so that "newest first" is an order of ids.
package ident

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// New returns an id that sorts after every one that this process created before.
func New() string { return uuid.Must(uuid.NewV7()).String() }

// Derive returns the id that follows from a base id and some words: the same
// arguments return the same id, so that a second attempt at creating something
// finds the first. It sorts right after the ids of the base's millisecond. If
// base is not an id, the result sorts anywhere.
func Derive(base string, words ...string) string {
	h := sha256.New()
	for _, w := range append([]string{base}, words...) {
		sum := sha256.Sum256([]byte(w)) // one length each: no two lists of words run into one
		h.Write(sum[:])
	}
	id := [16]byte(h.Sum(nil)[:16])
	if from, err := uuid.Parse(base); err == nil {
		copy(id[:6], from[:6]) // the time of a version 7
	}
	return Derived(id)
}

// At returns the id of a name at a moment: the same on every node and at every
// call. It sorts by that moment, to the millisecond, among the ids of New.
func At(at time.Time, name string) string {
	var id uuid.UUID
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro())), name...))
	copy(id[:], binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli())<<16)[:6])
	copy(id[6:], sum[:])
	id[6] = id[6]&0x0f | 0x70 // version 7
	id[8] = id[8]&0x3f | 0x80 // the variant of RFC 9562
	return id.String()
}

// Valid reports whether s is a UUID in its canonical lower-case form, the only
// one that is ever stored.
func Valid(s string) bool {
	if len(s) != 36 {
		return false
	}
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}

// Derived returns 16 bytes of a hash as a UUID of version 8, for things that
// must have the same id on every node and at any time.
func Derived(hash [16]byte) string {
	id := uuid.UUID(hash)
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id.String()
}
