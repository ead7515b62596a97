// Package page implements cursors and limits once for every list. A cursor is
// opaque and authenticated, and bound to the list that it was issued for:
// tenant, list name, filter and order.
package page

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"agentd/internal/base/fault"
)

// Limit reads a limit as callers send it. It is never refused: a number is
// clamped to 1..limit, anything else is the default.
func Limit(s string, def, limit int) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if errors.Is(err, strconv.ErrSyntax) {
		return def
	}
	return min(max(n, 1), limit) // if the digits overflow, n is the nearest number
}

// Window is the part of a list that is read.
type Window struct {
	After     string // what the position before it is named by; "" from the start
	Limit     int
	Ascending bool // oldest first
}

// Moment is a position in a list by time and id: the microseconds of the Unix
// time, a comma and the id.
type Moment string

// MomentOf returns the position of a row.
func MomentOf(at time.Time, id string) string {
	return strconv.FormatInt(at.UnixMicro(), 10) + "," + id
}

// Parts returns the time and the id of a position; of another text, times that no
// row has.
func (m Moment) Parts() (time.Time, string) {
	micros, id, _ := strings.Cut(string(m), ",")
	n, _ := strconv.ParseInt(micros, 10, 64)
	return time.UnixMicro(n), id
}

// Cursors seals and opens cursors with keys of this deployment.
type Cursors struct{ keys [][]byte }

// NewCursors returns Cursors that are sealed with the first key and opened with
// all: secrets of at least 16 bytes.
func NewCursors(keys ...[]byte) *Cursors { return &Cursors{keys} }

// Seal returns a cursor that continues after position.
func (c *Cursors) Seal(s Scope, position string) string { return seal(c.keys[0], s, position) }

func seal(key []byte, s Scope, position string) string {
	return base64.RawURLEncoding.EncodeToString(append(mac(key, s, position), position...))
}

const macSize = 12

// MaxCount is how many rows a total counts at most: beyond it the answer has this
// number and total_is_lower_bound.
const MaxCount = 1000

func mac(key []byte, s Scope, position string) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range append([]string{"cursor", s.Tenant, s.List, position}, s.Filter...) {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return h.Sum(nil)[:macSize]
}

// Open returns the position of a cursor; "" opens as "", the first page. A
// cursor that Seal did not return for the same scope is INVALID_CURSOR.
func (c *Cursors) Open(s Scope, cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil && len(raw) > macSize {
		// The texts are compared: base64 has several spellings of the same bytes.
		position := string(raw[macSize:])
		for _, key := range c.keys {
			if hmac.Equal([]byte(seal(key, s, position)), []byte(cursor)) {
				return position, nil
			}
		}
	}
	return "", fault.New(fault.Invalid, "INVALID_CURSOR",
		"This cursor was not issued for this list with this filter and order; start again without a cursor.")
}
