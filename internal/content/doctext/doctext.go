// Package doctext extracts the text of documents for search and retrieval. Documents
// come from strangers: what an extraction takes of time and memory is bounded by the
// size of the document and by the limit on its text, while it works.
package doctext

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"agentd/internal/content/htmltext"
)

// Type is the type of a document.
type Type string

// The types. Text can be extracted from the first six.
const (
	Plain    Type = "plain"
	Markdown Type = "markdown"
	HTML     Type = "html"
	CSV      Type = "csv"
	PDF      Type = "pdf"
	DOCX     Type = "docx"
	Image    Type = "image"
)

// MaxPages is the number of pages that a PDF may have.
const MaxPages = 5000

// Errors of Text.
var (
	ErrType      = errors.New("text can be taken out of plain text, Markdown, HTML, CSV, PDF and DOCX, not out of documents of this type")
	ErrText      = errors.New("the document is not text in UTF-8 or UTF-16")
	ErrLong      = errors.New("the document has more text than the limit")
	ErrEncrypted = errors.New("the document is encrypted; save it without a password")
	ErrBroken    = errors.New("the document is damaged, or is not of the type that it claims to be")
	ErrPages     = fmt.Errorf("the document has more than %d pages; split it", MaxPages)
	ErrHeavy     = errors.New("the document takes too much time or memory to read; split it, or convert it to text")
	ErrNoText    = errors.New("the document has no text; scanned pages need text recognition first")
)

var byExtension = map[string]Type{
	".md": Markdown, ".markdown": Markdown, ".html": HTML, ".htm": HTML, ".xhtml": HTML, ".csv": CSV, ".pdf": PDF, ".docx": DOCX,
	".png": Image, ".jpg": Image, ".jpeg": Image, ".gif": Image, ".webp": Image,
}

var byMime = map[string]Type{
	"text/markdown": Markdown, "text/html": HTML, "application/xhtml+xml": HTML, "text/csv": CSV, "application/pdf": PDF,
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": DOCX,
}

// TypeOf returns the type of a document, by its media type or else by its name.
// The default is plain text.
func TypeOf(name, mime string) Type {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	mime = strings.TrimSpace(mime)
	if t, ok := byMime[mime]; ok {
		return t
	}
	if strings.HasPrefix(mime, "image/") {
		return Image
	}
	if t, ok := byExtension[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	return Plain
}

// TypeOfText returns the type of a document that was sent as text: a name like
// x.pdf does not make it a PDF.
func TypeOfText(name string) Type {
	switch t := TypeOf(name, ""); t {
	case Markdown, HTML, CSV:
		return t
	}
	return Plain
}

// Reason returns a sentence for callers on why no text can be extracted.
func Reason(err error) string {
	for _, known := range []error{ErrType, ErrLong, ErrEncrypted, ErrBroken, ErrPages, ErrHeavy, ErrNoText} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return ErrText.Error()
}

// ParseFunc extracts the text of a PDF or DOCX document. limit bounds the bytes of the
// text. Errors: those of Text.
type ParseFunc func(ctx context.Context, t Type, data []byte, limit int) (string, error)

// Extractor extracts the text of documents.
type Extractor struct {
	// Parse reads PDF and DOCX. What a parser of these formats takes cannot be bounded
	// while it works in this process, so it runs in another one.
	Parse ParseFunc
}

// Text is the function Text for all types. A nil Extractor reads only those of the
// function.
func (e *Extractor) Text(ctx context.Context, t Type, data []byte, limit int) (string, error) {
	if e == nil || t != PDF && t != DOCX {
		return Text(ctx, t, data, limit)
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	text, err := e.Parse(ctx, t, data, limit)
	if err != nil {
		return "", err
	}
	if text = Clean(strings.ToValidUTF8(text, "\uFFFD")); strings.TrimSpace(text) == "" {
		return "", ErrNoText
	}
	return text, nil
}

// Text extracts the text of all types but PDF and DOCX: HTML becomes Markdown, a row of CSV a line of
// "column: value". NUL characters are removed, because databases do not store
// them. limit bounds the bytes of the text. Errors: ErrType, ErrText, ErrLong, that
// of ctx.
func Text(ctx context.Context, t Type, data []byte, limit int) (string, error) {
	switch t {
	case Plain, Markdown, HTML, CSV:
	default:
		return "", ErrType
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	data, err := decode(data)
	if err != nil {
		return "", err
	}
	switch t {
	case HTML:
		d, err := htmltext.Convert(ctx, data, "", limit)
		if err != nil {
			return "", err
		}
		if d.Cut {
			return "", ErrLong
		}
		return Clean(d.Text), nil
	case CSV:
		return table(ctx, data, limit)
	}
	if len(data)-bytes.Count(data, []byte{0}) > limit {
		return "", ErrLong
	}
	return Clean(string(data)), nil
}

// Clean removes what databases do not store.
func Clean(text string) string { return strings.ReplaceAll(text, "\x00", "") }

// decode decodes UTF-8, or UTF-16 with a byte order mark.
func decode(data []byte) ([]byte, error) {
	if text, ok := bytes.CutPrefix(data, []byte("\xEF\xBB\xBF")); ok {
		data = text
	}
	if len(data) >= 2 && len(data)%2 == 0 {
		big := data[0] == 0xFE && data[1] == 0xFF
		if big || data[0] == 0xFF && data[1] == 0xFE {
			return decode16(data[2:], big), nil
		}
	}
	if !utf8.Valid(data) {
		return nil, ErrText
	}
	return data, nil
}

// decode16 decodes UTF-16 with an even number of bytes.
func decode16(data []byte, big bool) []byte {
	unit := func(i int) rune {
		if i+1 >= len(data) {
			return 0
		}
		if big {
			return rune(data[i])<<8 | rune(data[i+1])
		}
		return rune(data[i+1])<<8 | rune(data[i])
	}
	out := make([]byte, 0, len(data)/2)
	for i := 0; i < len(data); i += 2 {
		r := unit(i)
		if utf16.IsSurrogate(r) {
			if r = utf16.DecodeRune(r, unit(i+2)); r != utf8.RuneError {
				i += 2
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}
