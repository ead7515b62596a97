package search

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSnippet(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("lorem ipsum ", 50)
	for _, tt := range []struct {
		text, q, want string
	}{
		{"", "a", ""},
		{"nothing here", "else", ""},
		{"Here it is.", "it", "Here it is."},
		{"Here it is.", "HE", "Here it is."},
		{"Crème\n\n brûlée\tfor two", "brulee", "Crème brûlée for two"},
		{"Don't panic", "dont", "Don't panic"},
		{"what is found, first of all", "first found", "what is found, first of all"},
		{"今日は東京の天気です", "東京", "今日は東京の天気です"},
		{"a\x00b\x1b[31m red", "red", "a b [31m red"},
		{"tail " + strings.Repeat("x", 400), "tail", "tail " + strings.Repeat("x", maxSubtitle-5) + "…"},
	} {
		got, ok := snippet(tt.text, queryWords(tt.q))
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%q in %q: %q, want %q", tt.q, tt.text, got, tt.want)
		}
	}
	got, _ := snippet(long+"needle "+long, queryWords("need"))
	if !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "…") || !strings.Contains(got, " needle lorem") || strings.HasPrefix(got, "…rem") {
		t.Errorf("in the middle: %q", got)
	}
}

func FuzzSnippet(f *testing.F) {
	f.Add("Here it is.", "it")
	f.Add("\xff\xfe東京\u0301", "東")
	f.Add("ﬁle ™ ① Å", "fi")
	f.Fuzz(func(t *testing.T, body, q string) {
		line, ok := snippet(body, queryWords(q))
		if ok != (line != "") || strings.ContainsAny(line, "\n\r\x00") || utf8.RuneCountInString(line) > maxSubtitle+3 || !utf8.ValidString(line) {
			t.Errorf("%q in %q: %q", q, body, line)
		}
	})
}
