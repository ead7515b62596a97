package runsql

import (
	"errors"
	"strings"
)

// smallInts is a row of numbers that are mostly smallInts. In JSON it is a text of one
// character for each below 32, and of one more for each further five bits, the
// lowest first: there are as many numbers as a model said tokens.
type smallInts []int

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

var errSmallInts = errors.New("runsql: a list of small numbers is malformed")

// MarshalText implements encoding.TextMarshaler. Negative numbers, which do not
// occur, become 0.
func (s smallInts) MarshalText() ([]byte, error) {
	b := make([]byte, 0, len(s)+8)
	for _, n := range s {
		n = max(0, n)
		for ; n >= 32; n >>= 5 {
			b = append(b, digits[32+n&31])
		}
		b = append(b, digits[n])
	}
	return b, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *smallInts) UnmarshalText(text []byte) error {
	*s = make(smallInts, 0, len(text))
	n, shift := 0, 0
	for _, c := range text {
		d := strings.IndexByte(digits, c)
		if d < 0 || shift > 55 {
			return errSmallInts
		}
		n |= d & 31 << shift
		if shift += 5; d < 32 {
			*s = append(*s, n)
			n, shift = 0, 0
		}
	}
	if shift > 0 {
		return errSmallInts
	}
	return nil
}

// differences returns each number less the one before, and 0 where it is less
// than the one before: clocks may step back.
func differences(of []int) (out smallInts) {
	before := 0
	for _, n := range of {
		d := max(0, n-before)
		out = append(out, d)
		before += d
	}
	return out
}
