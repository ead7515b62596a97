package runsql

import (
	"errors"
	"strings"
)

// shortNames are what frequent names of events are stored as. They are in
// databases: one that is here stays. Names have a dot in them, these do not.
var shortNames = map[string]string{
	"llm.chunk": "c", "llm.thinking": "h", "llm.completed": "l", "step.started": "s", "step.completed": "e", "tool.call": "t", "tool.result": "r",
}

var longNames = func() map[string]string {
	long := map[string]string{}
	for name, short := range shortNames {
		long[short] = name
	}
	return long
}()

func shorten(name string) string {
	if short, ok := shortNames[name]; ok {
		return short
	}
	return name
}

func lengthen(name string) string {
	if long, ok := longNames[name]; ok {
		return long
	}
	return name
}

// small is a row of numbers that are mostly small. In JSON it is a text of one
// character for each below 32, and of one more for each further five bits, the
// lowest first: there are as many numbers as a model said tokens.
type small []int

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

var errSmall = errors.New("runsql: a row of small numbers is malformed")

// MarshalText implements encoding.TextMarshaler. Negative numbers, which are
// none of ours, become 0.
func (s small) MarshalText() ([]byte, error) {
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
func (s *small) UnmarshalText(text []byte) error {
	*s = make(small, 0, len(text))
	n, shift := 0, 0
	for _, c := range text {
		d := strings.IndexByte(digits, c)
		if d < 0 || shift > 55 {
			return errSmall
		}
		n |= d & 31 << shift
		if shift += 5; d < 32 {
			*s = append(*s, n)
			n, shift = 0, 0
		}
	}
	if shift > 0 {
		return errSmall
	}
	return nil
}

// differences gives each number less the one before. One that falls counts as
// no difference: clocks may step back.
func differences(of []int) (out small) {
	before := 0
	for _, n := range of {
		d := max(0, n-before)
		out = append(out, d)
		before += d
	}
	return out
}
