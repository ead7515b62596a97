package doctext

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTypeOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, mime string
		want       Type
	}{
		{"a.md", "", Markdown},
		{"A.HTML", "", HTML},
		{"a.bin", "text/csv; charset=utf-8", CSV},
		{"a.txt", "application/pdf", PDF},
		{"a.docx", "application/octet-stream", DOCX},
		{"a", "image/x-new", Image},
		{"notes", "", Plain},
		{"", "text/plain", Plain},
	} {
		if got := TypeOf(tt.name, tt.mime); got != tt.want {
			t.Errorf("%q, %q is %s, not %s", tt.name, tt.mime, got, tt.want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		of   Type
		data string
		want string
		err  error
	}{
		{"plain", Plain, "\xEF\xBB\xBFh\x00ello", "hello", nil},
		{"utf16", Plain, "\xFF\xFEh\x00i\x00\xe4\x00", "hiä", nil},
		{"utf16_big", Plain, "\xFE\xFF\x00h\x00i", "hi", nil},
		{"latin1", Markdown, "\xe4", "", ErrText},
		{"html", HTML, "<html><head><script>x()</script><style>p{}</style></head><body><h1>Title</h1><p>A <b>bold</b> word</p></body>", "# Title\n\nA **bold** word", nil},
		{"csv", CSV, "name,age\n\"Ada, L\",36\nBob\n", "name: Ada, L; age: 36\nname: Bob\n", nil},
		{"header_only", CSV, "name,age\n", "name,age\n", nil},
		{"pdf", PDF, "%PDF-1.4", "", ErrType},
		{"image", Image, "x", "", ErrType},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Text(tt.of, []byte(tt.data))
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add("html", []byte("<p>a<table><tr><td>1</table>"))
	f.Add("csv", []byte("a,\"b\n1,2"))
	f.Add("plain", []byte("\xFF\xFEa\x00"))
	f.Fuzz(func(t *testing.T, of string, data []byte) {
		text, err := Text(Type(of), data)
		if err == nil && (!utf8.ValidString(text) || strings.Contains(text, "\x00")) {
			t.Errorf("%q", text)
		}
	})
}
