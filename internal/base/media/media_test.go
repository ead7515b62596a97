package media_test

import (
	"mime"
	"strings"
	"testing"
	"unicode/utf8"

	"agentd/internal/base/media"
)

func TestTypes(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"text/plain": "text/plain", "Text/HTML; Charset=UTF-8": "text/html; charset=UTF-8", "image/png; boundary=x": "image/png",
		"": "", "text": "", "text/": "", "/plain": "", "a/b/c": "", "text/plain; charset": "", "text/pla\x00in": "",
		"text/plain\r\nX-A: b": "", strings.Repeat("a", 300) + "/b": "",
	} {
		got, ok := media.Clean(given)
		if got != want && ok || ok != (want != "") {
			t.Errorf("Clean(%q) = %q, %v; want %q", given, got, ok, want)
		}
	}
	for _, c := range []struct{ given, name, want string }{
		{"", "a.md", "text/markdown"},
		{"application/octet-stream", "A.PDF", "application/pdf"},
		{"image/png", "a.txt", "image/png"},
		{"nonsense", "README", media.Octets},
	} {
		if got := media.Best(c.given, c.name); got != c.want {
			t.Errorf("Best(%q, %q) = %q, want %q", c.given, c.name, got, c.want)
		}
	}
}

func TestInline(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{
		"image/png": true, "image/svg+xml": false, "image/svg+xml; charset=utf-8": false, "application/pdf": true, "audio/mpeg": true,
		"video/mp4": true, "text/html": false, "text/plain": false, "application/xhtml+xml": false, "application/xml": false, media.Octets: false,
	} {
		if got := media.Inline(kind); got != want {
			t.Errorf("Inline(%s) = %v", kind, got)
		}
	}
	for kind, want := range map[string]bool{"text/x-go": true, "application/json": true, "application/ld+json": true, "image/png": false, media.Octets: false} {
		if got := media.Text(kind); got != want {
			t.Errorf("Text(%s) = %v", kind, got)
		}
	}
}

func TestFileName(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"a.txt": "a.txt", "../../etc/passwd": "passwd", `C:\dir\b.txt`: "b.txt", "": "file", "..": "file", " . ": "file", "a/": "file",
		"x\x00y\r\n.txt": "xy.txt", "gpj.\u202eexe": "gpj.exe", "Füße.pdf": "Füße.pdf", "\xff\xfe": "file",
		strings.Repeat("ü", 200): strings.Repeat("ü", 127),
	} {
		if got := media.FileName(sent, "file"); got != want {
			t.Errorf("FileName(%q) = %q, want %q", sent, got, want)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"a.txt", "../x", "\x00", "a\"b\\c;d", "ü\u202e", "text/html; charset=\"x", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name := media.FileName(text, "file")
		if !utf8.ValidString(name) || len(name) > 255 || name == "" || strings.ContainsAny(name, "/\\\x00\r\n") {
			t.Errorf("FileName(%q) = %q", text, name)
		}
		header := media.Disposition(false, text)
		if strings.ContainsAny(header, "\r\n\x00") {
			t.Errorf("Disposition(%q) = %q", text, header)
		}
		if kind, params, err := mime.ParseMediaType(header); err != nil || kind != "attachment" || params["filename"] != name {
			t.Errorf("%q reads as %s, %v, %v", header, kind, params, err)
		}
		if clean, ok := media.Clean(text); ok {
			if again, ok := media.Clean(clean); !ok || again != clean || strings.ContainsAny(clean, "\r\n\x00") {
				t.Errorf("Clean(%q) = %q, then %q", text, clean, again)
			}
		}
	})
}
