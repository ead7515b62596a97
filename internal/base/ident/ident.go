// Package ident makes and checks identifiers. Ids are UUIDs of version 7: they
// sort by the time they were made, so that "newest first" is an id order.
package ident

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// New makes an id, later than every one that this process made before.
func New() string { return uuid.Must(uuid.NewV7()).String() }

// Derive makes the id that follows from another and some words: the same ones
// give the same id again, so that what is made twice is found the second time.
// It sorts right behind what was made in the base's millisecond. A base that is
// no id gives one that sorts anywhere.
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

// At makes the one id that a name has at a moment: the same wherever and
// however often it is made. It sorts by that moment, to the millisecond, among
// the ids that New makes.
func At(at time.Time, name string) string {
	var id uuid.UUID
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro())), name...))
	copy(id[:], binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli())<<16)[:6])
	copy(id[6:], sum[:])
	id[6] = id[6]&0x0f | 0x70 // version 7
	id[8] = id[8]&0x3f | 0x80 // the variant of RFC 9562
	return id.String()
}

// Valid says whether s is a UUID in its canonical lower-case form, the only
// one that is ever stored.
func Valid(s string) bool {
	if len(s) != 36 {
		return false
	}
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}

// Derived makes an id of 16 bytes of a hash: a UUID of version 8, for what must
// have the same id wherever and whenever it is named.
func Derived(hash [16]byte) string {
	id := uuid.UUID(hash)
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id.String()
}
