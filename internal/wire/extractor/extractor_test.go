package extractor

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"agentd/internal/content/doctext"
	"agentd/internal/content/doctext/doctexttest"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

func TestText(t *testing.T) {
	t.Parallel()
	text := &doctext.Extractor{Parse: Text}
	for _, tt := range []struct {
		name string
		of   doctext.Type
		file []byte
		want string
		err  error
	}{
		{"pdf", doctext.PDF, doctexttest.PDF("Tea at five", "Page two"), "Tea at five\n\f\nPage two", nil},
		{"docx", doctext.DOCX, doctexttest.DOCX(t, "<w:p><w:t>Tea\x00 at five</w:t></w:p>"), "", doctext.ErrBroken},
		{"docx_text", doctext.DOCX, doctexttest.DOCX(t, "<w:p><w:t>Tea at five</w:t></w:p>"), "Tea at five", nil},
		{"plain", doctext.Plain, []byte("Tea"), "Tea", nil},
		{"image", doctext.Image, []byte("x"), "", doctext.ErrType},
		{"scan", doctext.PDF, doctexttest.PDFOf("0 0 9 9 re f"), "", doctext.ErrNoText},
		{"broken", doctext.PDF, []byte("%PDF-1.4"), "", doctext.ErrBroken},
		{"encrypted", doctext.DOCX, []byte("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"), "", doctext.ErrEncrypted},
		{"pages", doctext.PDF, doctexttest.Assemble("/Root 1 0 R", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 9999/Kids[]>>"), "", doctext.ErrPages},
		{"long", doctext.PDF, doctexttest.PDF(strings.Repeat("0123456789", 150)), "", doctext.ErrLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := text.Text(t.Context(), tt.of, tt.file, 1000)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
			if err != nil && !strings.Contains(doctext.Reason(err), " ") {
				t.Errorf("the reason is %q", doctext.Reason(err))
			}
		})
	}
	if _, err := (*doctext.Extractor)(nil).Text(t.Context(), doctext.PDF, doctexttest.PDF("a"), 1000); !errors.Is(err, doctext.ErrType) {
		t.Errorf("without an extractor: %v", err)
	}
}

// Documents that would take the program down, or never end, end their own process.
func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 4<<20)
	loop := doctexttest.Assemble("/Root 1 0 R", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[2 0 R]>>")
	for _, tt := range []struct {
		name string
		of   doctext.Type
		file []byte
		errs []error
	}{
		{"deep", doctext.PDF, doctexttest.Assemble("/Root 1 0 R/X "+deep, "<</Type/Catalog/Pages 2 0 R>>"), []error{doctext.ErrBroken, doctext.ErrHeavy}},
		{"pages_in_a_circle", doctext.PDF, loop, []error{doctext.ErrBroken, doctext.ErrHeavy}},
		{"bomb_of_operands", doctext.PDF, doctexttest.PDFOf("BT /F1 10 Tf " + strings.Repeat("1 ", 24<<20)), []error{doctext.ErrHeavy, doctext.ErrBroken}},
		{"bomb_of_text", doctext.PDF, doctexttest.PDFOf("BT /F1 10 Tf (" + strings.Repeat("a", 6<<20) + ") Tj ET"), []error{doctext.ErrLong, doctext.ErrHeavy}},
		{"bomb_of_xml", doctext.DOCX, doctexttest.DOCX(t, strings.Repeat("<w:t>aaaa</w:t>", 1<<19)), []error{doctext.ErrLong, doctext.ErrHeavy}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			text, err := extract(t.Context(), 4*time.Second, tt.of, tt.file, 1<<20)
			for _, want := range tt.errs {
				if errors.Is(err, want) {
					t.Logf("%v after %v", err, time.Since(start))
					return
				}
			}
			t.Errorf("%d bytes of text, %v", len(text), err)
		})
	}
}

// A request that ends takes its process with it.
func TestTextStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	file := doctexttest.PDFOf("BT /F1 10 Tf " + strings.Repeat("1 pop ", 32<<20))
	start := time.Now()
	if _, err := Text(ctx, doctext.PDF, file, 1<<20); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if took := time.Since(start); took > maxTime/2 {
		t.Errorf("it took %v", took)
	}
}
