package doctext

import (
	"context"
	"errors"
	"runtime/metrics"
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
		{"csv_wide", CSV, "a\nb,c,d\n", "a: b; c; d\n", nil},
		{"csv_names", CSV, strings.Repeat("ä", 150) + "\nb\n", strings.Repeat("ä", 100) + ": b\n", nil},
		{"csv_open_quote", CSV, "a,b\n\"c,d\n", "a: c,d\n\n", nil},
		{"csv_nul", CSV, "a,b\nc\x00,d\n", "a: c; b: d\n", nil},
		{"csv_long", CSV, strings.Repeat("a\n", 300), "", ErrLong},
		{"html_long", HTML, strings.Repeat("a ", 600), "", ErrLong},
		{"plain_long", Plain, strings.Repeat("a", 1001), "", ErrLong},
		{"plain_exact", Plain, strings.Repeat("a", 1000) + "\x00", strings.Repeat("a", 1000), nil},
		{"utf16_surrogates", Plain, "\xFF\xFE\x3D\xD8\x00\xDE\x00\xD8x\x00\x00\xDC\x3D\xD8", "😀\uFFFDx\uFFFD\uFFFD", nil},
		{"pdf", PDF, "%PDF-1.4", "", ErrType},
		{"image", Image, "x", "", ErrType},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Text(t.Context(), tt.of, []byte(tt.data), 1000)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

// maxGrowth is how many bytes of text a byte of a document may become.
const maxGrowth = 2 * nameFactor

// A table of any shape takes memory in proportion to its size, and its text too.
func TestTablesAreBounded(t *testing.T) { // alone, because it measures memory
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	for name, data := range map[string]string{
		"long_name":       strings.Repeat("A", 50_000) + "\n" + strings.Repeat("x\n", 10_000),
		"longer_name":     strings.Repeat("A", 200_000) + "\n" + strings.Repeat("x\n", 200_000),
		"wide_rows":       strings.Repeat("name,", 10_000) + "\n" + strings.Repeat(strings.Repeat(",", 1000)+"\n", 500),
		"one_record":      strings.Repeat(",", 2<<20),
		"rows_of_none":    strings.Repeat("\n", 1<<20),
		"open_quote":      "a,b\n\"" + strings.Repeat(",\n", 1<<20),
		"quoted_lines":    "a\n" + strings.Repeat("\"\n\",", 1<<18),
		"quotes":          "a\n" + strings.Repeat("\"\"", 1<<19),
		"many_long_names": strings.Repeat(strings.Repeat("n", 100)+",", 5000) + "\n" + strings.Repeat(strings.Repeat(",", 5000)+"\n", 100),
	} {
		metrics.Read(sample)
		before := sample[0].Value.Uint64()
		text, err := Text(t.Context(), CSV, []byte(data), 1<<30)
		metrics.Read(sample)
		took := int(sample[0].Value.Uint64() - before)
		if err != nil || len(text) > maxGrowth*len(data)+nameFloor || took > 100*len(data)+64<<20 {
			t.Errorf("%s: %d bytes became %d with %d bytes of memory, %v", name, len(data), len(text), took, err)
		}
	}
}

func TestTextStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, of := range []Type{Plain, HTML, CSV} {
		if _, err := Text(ctx, of, []byte("a\nb\n"), 1000); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", of, err)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("html", []byte("<p>a<table><tr><td>1</table>"))
	f.Add("csv", []byte("a,\"b\n1,2"))
	f.Add("plain", []byte("\xFF\xFEa\x00"))
	f.Fuzz(func(t *testing.T, of string, data []byte) {
		text, err := Text(t.Context(), Type(of), data, 1<<30)
		if err == nil && (!utf8.ValidString(text) || strings.Contains(text, "\x00")) {
			t.Errorf("%q", text)
		}
		if len(text) > maxGrowth*len(data)+nameFloor {
			t.Errorf("%d bytes became %d", len(data), len(text))
		}
	})
}
