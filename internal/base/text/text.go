// Package text shortens and flattens text for display and storage.
//
// What its functions return is valid UTF-8: a cut never splits a character, and
// bytes that belong to none are dropped. Truncate and TruncateBytes mark the cut
// with an ellipsis, which counts towards the limit; Prefix and PrefixBytes do
// not mark it, for callers that report the cut in another way.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const ellipsis = "…"

// Truncate returns s, or its beginning and an ellipsis where s is longer than
// limit characters. No space stands before the ellipsis.
func Truncate(s string, limit int) string {
	s = valid(s)
	if short := Prefix(s, limit); len(short) == len(s) {
		return s
	}
	return strings.TrimRightFunc(Prefix(s, limit-1), unicode.IsSpace) + ellipsis
}

// TruncateBytes is Truncate with a limit in bytes.
func TruncateBytes(s string, limit int) string {
	if s = valid(s); len(s) <= limit {
		return s
	}
	return strings.TrimRightFunc(PrefixBytes(s, limit-len(ellipsis)), unicode.IsSpace) + ellipsis
}

// Prefix returns the first limit characters of s.
func Prefix(s string, limit int) string {
	s = valid(s)
	if len(s) <= limit {
		return s
	}
	for i := range s {
		if limit <= 0 {
			return s[:i]
		}
		limit--
	}
	return s
}

// PrefixBytes returns the longest beginning of s of whole characters that has
// at most limit bytes. It reads no more of s than that.
func PrefixBytes(s string, limit int) string {
	if len(s) <= limit {
		return valid(s)
	}
	end := max(0, limit)
	for back := 0; back < utf8.UTFMax && end-back > 0; back++ {
		if utf8.RuneStart(s[end-back]) {
			end -= back
			break
		}
	}
	return valid(s[:end])
}

// OneLine returns the words of s with a single space between them. Control
// characters separate words like spaces.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(valid(s), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}

func valid(s string) string { return strings.ToValidUTF8(s, "") }
