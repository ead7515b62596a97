package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"agentd/internal/base/text"
)

func TestTruncate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cut   func(string, int) string
		s     string
		limit int
		want  string
	}{
		{text.Truncate, "", 0, ""},
		{text.Truncate, "über", 4, "über"},
		{text.Truncate, "übers", 4, "übe…"},
		{text.Truncate, "ab cd", 4, "ab…"},
		{text.Truncate, "a\xffb", 2, "ab"},
		{text.TruncateBytes, "über", 5, "über"},
		{text.TruncateBytes, "überm", 5, "ü…"},
		{text.TruncateBytes, "überm", 4, "…"},
		{text.Prefix, "über", 1, "ü"},
		{text.Prefix, "über", 9, "über"},
		{text.Prefix, "über", 0, ""},
		{text.PrefixBytes, "über", 1, ""},
		{text.PrefixBytes, "über", 2, "ü"},
		{text.PrefixBytes, "\x80\x80\x80\x80\x80\x80ab", 7, "a"},
		{text.PrefixBytes, "\xf0\x9f\x98\x80!", 3, ""},
	} {
		if got := tt.cut(tt.s, tt.limit); got != tt.want {
			t.Errorf("%q to %d: %q, want %q", tt.s, tt.limit, got, tt.want)
		}
	}
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	if got := text.OneLine("  a\r\n\tb\x00 \u2028c\xff "); got != "a b c" {
		t.Errorf("%q", got)
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("über \xff\x80", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, min(limit, 1<<16))
		for _, got := range []string{text.Truncate(s, limit+1), text.Prefix(s, limit+1)} {
			if !utf8.ValidString(got) || utf8.RuneCountInString(got) > limit+1 {
				t.Errorf("%q to %d characters: %q", s, limit+1, got)
			}
		}
		for _, got := range []string{text.TruncateBytes(s, limit+3), text.PrefixBytes(s, limit+3)} {
			if !utf8.ValidString(got) || len(got) > limit+3 {
				t.Errorf("%q to %d bytes: %q", s, limit+3, got)
			}
		}
		if got := text.OneLine(s); strings.ContainsAny(got, "\r\n\t\x00") || !utf8.ValidString(got) {
			t.Errorf("%q as one line: %q", s, got)
		}
	})
}
