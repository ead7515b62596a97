package workspace

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCleanPaths(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"a.txt": "a.txt", "/a.txt": "a.txt", "a//b/": "a/b", "./a/./b": "a/b", "": "", "/": "", ".": "",
		"C:/x": "C:/x", "über/Straße.md": "über/Straße.md", "e\u0301.txt": "\u00e9.txt", ".env": ".env", "a..b": "a..b", "..a": "..a",
		"%2e%2e/x": "%2e%2e/x", "日本/語.txt": "日本/語.txt", "a b.txt": "a b.txt",
	} {
		got, complaint := clean(sent)
		if got != want || complaint != "" {
			t.Errorf("clean(%q) = %q, %q; want %q", sent, got, complaint, want)
		}
	}
	for _, sent := range []string{
		"..", "../x", "a/../b", "a/..", "/..", "a/.. /b", "...", " ", ". .", "a/ /b", `..\x`, `a\b`, "a\x00b", "a\nb", "\x7f", "\xff", "\xc0\xae\xc0\xae/x",
		"…", "．．/x", "\u2024\u2024/x", "a\uff0fb", "a\u2215\u200fb", "gpj.\u202etxt", "a\u2028b", "\ufeffa", "\u00a0",
		strings.Repeat("a", 256), strings.Repeat("a/", 600), strings.Repeat("a/", 33), strings.Repeat("ü", 128),
	} {
		if got, complaint := clean(sent); complaint == "" {
			t.Errorf("clean(%q) = %q", sent, got)
		}
	}
}

// What is accepted stays inside of the workspace, on any disk it is ever saved
// to, and has one spelling.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{"a/b.txt", "../x", `..\x`, "a/./b//c", "…", "．．/x", "\x00", "/etc/passwd", "e\u0301", "\u2024.", strings.Repeat("a/", 40)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		got, complaint := clean(sent)
		if complaint != "" {
			if got != "" {
				t.Errorf("clean(%q) refuses and gives %q", sent, got)
			}
			return
		}
		if again, complaint := clean(got); again != got || complaint != "" {
			t.Errorf("clean(%q) = %q, then %q, %q", sent, got, again, complaint)
		}
		if got == "" {
			return
		}
		const root = "/srv/files"
		if joined := path.Join(root, got); joined != root+"/"+got || !utf8.ValidString(got) || len(got) > maxPath || strings.ContainsAny(got, "\\\x00\r\n") {
			t.Errorf("clean(%q) = %q, which is %q", sent, got, joined)
		}
	})
}

func TestGlobs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		glob, path string
		want       bool
	}{
		{"*.md", "a.md", true},
		{"*.md", "docs/a.md", true},
		{"*.md", "a.mdx", false},
		{"docs/*.md", "docs/a.md", true},
		{"docs/*.md", "docs/b/a.md", false},
		{"docs/**/*.md", "docs/a.md", true},
		{"docs/**/*.md", "docs/b/c/a.md", true},
		{"docs/**", "docs/b/c.txt", true},
		{"a?.txt", "ab.txt", true},
		{"a?.txt", "a/.txt", false},
		{"a+(b).txt", "a+(b).txt", true},
		{"ü*", "über.md", true},
	} {
		_, where, err := Query{Text: "x", Glob: c.glob}.compile()
		if err != nil || where.MatchString(c.path) != c.want {
			t.Errorf("%s on %s: %v, %v", c.glob, c.path, !c.want, err)
		}
	}
}

func FuzzGlobs(f *testing.F) {
	f.Add("**/*.md")
	f.Add("[a-")
	f.Fuzz(func(t *testing.T, glob string) {
		if _, _, err := (Query{Text: "x", Glob: glob}).compile(); err != nil && utf8.ValidString(glob) {
			t.Errorf("%q: %v", glob, err)
		}
	})
}

func TestWholeRunes(t *testing.T) {
	t.Parallel()
	const text = "aäb\U0001f600c"
	for from := range len(text) {
		for to := from; to <= len(text); to++ {
			piece, skipped := wholeRunes([]byte(text[from:to]), to == len(text))
			if !utf8.Valid(piece) || !strings.HasPrefix(text[from+skipped:], string(piece)) || len(piece) < to-from-7 {
				t.Errorf("%d to %d: %q after %d", from, to, piece, skipped)
			}
		}
	}
}
