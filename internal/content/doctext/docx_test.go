package doctext_test

import (
	"errors"
	"strings"
	"testing"

	"agentd/internal/content/doctext"
	"agentd/internal/content/doctext/doctexttest"
)

func TestDocxText(t *testing.T) {
	t.Parallel()
	p := func(text string) string { return "<w:p><w:r><w:t>" + text + "</w:t></w:r></w:p>" }
	for _, tt := range []struct {
		name string
		file []byte
		want string
		err  error
	}{
		{"paragraphs", doctexttest.DOCX(t, p("Tea &amp; milk")+p("at five")), "Tea & milk\nat five", nil},
		{"runs", doctexttest.DOCX(t, "<w:p><w:r><w:t>o</w:t></w:r><w:r><w:t xml:space=\"preserve\">ne </w:t><w:tab/><w:t>two</w:t><w:br/><w:t>x</w:t><w:noBreakHyphen/></w:r></w:p>"),
			"one \ttwo\nx-", nil},
		{"table", doctexttest.DOCX(t, "<w:tbl><w:tr><w:tc>"+p("lamp")+"</w:tc><w:tc>"+p("40")+"</w:tc></w:tr><w:tr><w:tc>"+p("chair")+"</w:tc></w:tr></w:tbl>"+p("end")),
			"lamp  | 40 \nchair \nend", nil},
		{"not_its_text", doctexttest.DOCX(t, "<w:p><w:r><w:instrText>PAGE</w:instrText><w:delText>gone</w:delText></w:r></w:p>"+p("a")), "a", nil},
		{"footnotes", doctexttest.Zip(t, map[string]string{"word/document.xml": "<d>" + p("a") + "</d>", "word/footnotes.xml": "<d>" + p("b") + "</d>"}), "a\n\nb", nil},
		{"stray_ends", doctexttest.DOCX(t, "</w:tr></w:tr>"+p("a")), "a", nil},
		{"long", doctexttest.DOCX(t, strings.Repeat(p(strings.Repeat("a", 500)), 3)), "", doctext.ErrLong},
		{"encrypted", []byte("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1 and more"), "", doctext.ErrEncrypted},
		{"not_a_zip", []byte("hello"), "", doctext.ErrBroken},
		{"no_document", doctexttest.Zip(t, map[string]string{"xl/workbook.xml": "<a/>"}), "", doctext.ErrBroken},
		{"damaged", doctexttest.DOCX(t, "<w:p <w:p"), "", doctext.ErrBroken},
		{"cut", doctexttest.DOCX(t, p("a"))[:80], "", doctext.ErrBroken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := doctext.DocxText(tt.file, 1000)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func FuzzDocxText(f *testing.F) {
	f.Add("<w:p><w:r><w:t>a</w:t></w:r></w:p>")
	f.Add("<w:tbl><w:tr><w:tc/></w:tr>")
	f.Fuzz(func(t *testing.T, body string) {
		text, err := doctext.DocxText(doctexttest.DOCX(t, body), 1000)
		if err == nil && len(text) > 1000+len(body) {
			t.Errorf("%d bytes", len(text))
		}
	})
}
