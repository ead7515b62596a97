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
