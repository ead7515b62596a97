// Package page does cursors and limits once for every list (interface.md
// section 4, Lists). A cursor is opaque and authenticated, and bound to the
// list it was made for: tenant, list name, filter and order.
package page

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"agentd/internal/base/fault"
)

// Limit reads a limit as callers send it: clamped into 1..most, never refused;
// what is no number is the default.
func Limit(s string, def, most int) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if errors.Is(err, strconv.ErrSyntax) {
		return def
	}
	return min(max(n, 1), most) // of digits that overflow, n is the nearest
}

// Cursors makes and opens cursors with a key of this deployment.
type Cursors struct{ key []byte }

// NewCursors takes any secret of at least 16 bytes.
func NewCursors(key []byte) *Cursors { return &Cursors{key: key} }

// Seal makes a cursor that stands after position.
func (c *Cursors) Seal(s Scope, position string) string {
	return base64.RawURLEncoding.EncodeToString(append(c.mac(s, position), position...))
}

const macSize = 12

func (c *Cursors) mac(s Scope, position string) []byte {
	h := hmac.New(sha256.New, c.key)
	for _, part := range append([]string{"cursor", s.Tenant, s.List, position}, s.Filter...) {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return h.Sum(nil)[:macSize]
}

// Open gives the position of a cursor; "" opens as "", the first page. A
// cursor that was not made by Seal for the same scope is INVALID_CURSOR.
func (c *Cursors) Open(s Scope, cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil && len(raw) > macSize {
		// As a whole: base64 has several spellings of the same bytes.
		position := string(raw[macSize:])
		if hmac.Equal([]byte(c.Seal(s, position)), []byte(cursor)) {
			return position, nil
		}
	}
	return "", fault.New(fault.Invalid, "INVALID_CURSOR",
		"This cursor was not issued for this list with this filter and order; start again without a cursor.")
}
