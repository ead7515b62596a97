// Package ident makes and checks identifiers. Ids are UUIDs of version 7: they
// sort by the time they were made, so that "newest first" is an id order.
package ident

import "github.com/google/uuid"

// New makes an id, later than every one that this process made before.
func New() string { return uuid.Must(uuid.NewV7()).String() }

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
