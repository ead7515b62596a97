package pdftext

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"agentd/internal/content/doctext"
	"agentd/internal/content/doctext/doctexttest"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		file []byte
		want string
		err  error
	}{
		{"pages", doctexttest.PDF("Tea (green)\nserved at five", "Page two"), "Tea (green)\nserved at five\n\f\nPage two", nil},
		{"kerning", doctexttest.PDFOf("BT /F1 10 Tf [(Te) 20 (a) -600 (at) -600 (five)] TJ ET"), "Tea at five", nil},
		{"columns", doctexttest.PDFOf("BT /F1 10 Tf 1 0 0 1 50 700 Tm (lamp) Tj 1 0 0 1 200 700 Tm (40 EUR) Tj 1 0 0 1 50 680 Tm (chair) Tj ET"), "lamp 40 EUR\nchair", nil},
		{"next_line", doctexttest.PDFOf("BT /F1 10 Tf 12 TL 50 700 Td (one) Tj (two) ' 1 2 (three) \" 0 -20 TD (four) Tj T* (five) Tj ET"), "one\ntwo\nthree\nfour\nfive", nil},
		{"states", doctexttest.PDFOf("q 2 0 0 2 0 0 cm BT /F1 10 Tf 50 Tz 3 Tc 1 Tw 50 300 Td (a) Tj ET Q Q BT /F1 9 Tf 5 5 Td (b) Tj ET"), "a\nb", nil},
		{"encoding", doctexttest.PDFOf("BT /F1 10 Tf (\\344\\200) Tj ET"), "ä€", nil},
		{"no_text", doctexttest.PDFOf("0 0 10 10 re f"), "", nil},
		{"no_font", doctexttest.PDFOf("BT (lost) Tj ET"), "", nil},
		{"damaged_page", doctexttest.PDFOf("BT /F1 10 Tf (a) Tj ET", "BT >> ]] Tf end"), "a", nil},
		{"trailing_bytes", append(doctexttest.PDF("a"), "\r\n\x00\x00junk"...), "a", nil},
		{"newer_version", []byte(strings.Replace(string(doctexttest.PDF("a")), "%PDF-1.4", "%PDF-2.0", 1)), "a", nil},
		{"long", doctexttest.PDF(strings.Repeat("0123456789", 150)), "", doctext.ErrLong},
		{"not_a_pdf", []byte(strings.Repeat("hello", 100)), "", doctext.ErrBroken},
		{"header_only", []byte("%PDF-1.4"), "", doctext.ErrBroken},
		{"cut", doctexttest.PDF("a")[:300], "", doctext.ErrBroken},
		{"many_pages", doctexttest.Assemble("/Root 1 0 R", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 5001/Kids[]>>"), "", doctext.ErrPages},
		{"no_pages", doctexttest.Assemble("/Root 1 0 R", "<</Type/Catalog>>"), "", doctext.ErrBroken},
		{"encrypted", doctexttest.Assemble("/Root 1 0 R/Encrypt 2 0 R/ID[<00><00>]", "<</Type/Catalog>>",
			"<</Filter/Standard/V 1/R 2/P -1/O("+strings.Repeat("o", 32)+")/U("+strings.Repeat("u", 32)+")>>"), "", doctext.ErrEncrypted},
		{"encrypted_aes256", doctexttest.Assemble("/Root 1 0 R/Encrypt 2 0 R", "<</Type/Catalog>>", "<</Filter/Standard/V 5/R 6/Length 256>>"),
			"", doctext.ErrEncrypted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Text(tt.file, 1000)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

// object writes a stream.
func object(head, body string) string {
	return "<<" + head + "/Length " + strconv.Itoa(len(body)) + ">>\nstream\n" + body + "\nendstream"
}

// Fonts of word processors have codes of two bytes, and a table that says what they
// mean; drawings stand in drawings.
func TestTextOfCompositeFonts(t *testing.T) {
	t.Parallel()
	table := object("", "1 begincodespacerange <0000><FFFF> endcodespacerange 2 beginbfchar <0001><0054> <0002><00E4> endbfchar "+
		"2 beginbfrange <0010><0012><0061> <0020><0021>[<0066006A> <0078>] endbfrange")
	page := "BT /F1 10 Tf 10 700 Td <000100020010> Tj 25 0 Td <0012> Tj 30 0 Td <00200021> Tj ET /X Do"
	file := doctexttest.Assemble("/Root 1 0 R",
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>",
		"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>/XObject<</X 8 0 R>>>>>>",
		object("", page),
		"<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/ToUnicode 7 0 R/DescendantFonts[6 0 R]>>",
		"<</Type/Font/Subtype/CIDFontType2/DW 500/W[1[1000 1000] 16 18 500]>>",
		table,
		object("/Type/XObject/Subtype/Form/Matrix[1 0 0 1 0 100]", "BT /F1 10 Tf 10 10 Td <0011> Tj ET /X Do"),
	)
	got, err := Text(file, 1000)
	// The first word is 25 wide, so that the next code belongs to it.
	if want := "Täac fjx\nb"; !strings.HasPrefix(got, want) || err != nil {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func FuzzText(f *testing.F) {
	f.Add(doctexttest.PDF("Tea", "at five"))
	f.Add(doctexttest.PDFOf("BT /F1 10 Tf [(Te) 20 (a)] TJ ET"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if text, err := Text(data, 1000); err == nil && len(text) > 1002 {
			t.Errorf("%d bytes", len(text))
		}
	})
}
