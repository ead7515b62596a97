// Package doctext extracts the text of documents for search and retrieval.
package doctext

import (
	"bytes"
	"encoding/csv"
	"errors"
	"path"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	htmltomarkdown "github.com/JohannesKaufmann/html-to-markdown/v2"
)

// Type is the type of a document.
type Type string

// The types. Text can be extracted from the first four.
const (
	Plain    Type = "plain"
	Markdown Type = "markdown"
	HTML     Type = "html"
	CSV      Type = "csv"
	PDF      Type = "pdf"
	DOCX     Type = "docx"
	Image    Type = "image"
)

// Errors of Text.
var (
	ErrType = errors.New("text cannot be taken out of documents of this type; it can out of plain text, Markdown, HTML and CSV")
	ErrText = errors.New("the document is not text in UTF-8 or UTF-16")
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
	if errors.Is(err, ErrType) {
		return ErrType.Error()
	}
	return ErrText.Error()
}

// Text extracts the text: HTML becomes Markdown, a row of CSV a line of
// "column: value". NUL characters are removed, because databases do not store
// them. Errors: ErrType, ErrText.
func Text(t Type, data []byte) (string, error) {
	switch t {
	case Plain, Markdown, HTML, CSV:
	default:
		return "", ErrType
	}
	text, err := decode(data)
	if err != nil {
		return "", err
	}
	switch t {
	case HTML:
		text, err = htmltomarkdown.ConvertString(text)
		if err != nil {
			return "", errors.Join(ErrText, err)
		}
	case CSV:
		text = table(text)
	}
	return Clean(text), nil
}

// Clean removes what databases do not store.
func Clean(text string) string { return strings.ReplaceAll(text, "\x00", "") }

// decode decodes UTF-8, or UTF-16 with a byte order mark.
func decode(data []byte) (string, error) {
	if text, ok := bytes.CutPrefix(data, []byte("\xEF\xBB\xBF")); ok {
		data = text
	}
	if len(data) >= 2 && len(data)%2 == 0 {
		big := data[0] == 0xFE && data[1] == 0xFF
		if big || data[0] == 0xFF && data[1] == 0xFE {
			units := make([]uint16, len(data)/2-1)
			for i := range units {
				a, b := uint16(data[2*i+2]), uint16(data[2*i+3])
				if big {
					a, b = b, a
				}
				units[i] = a | b<<8
			}
			return string(utf16.Decode(units)), nil
		}
	}
	if !utf8.Valid(data) {
		return "", ErrText
	}
	return string(data), nil
}

// table writes each row with the names of its columns, so that every chunk of
// the text names its values. Text that is not a table stays as it is.
func table(text string) string {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord, r.LazyQuotes, r.TrimLeadingSpace = -1, true, true
	rows, err := r.ReadAll()
	if err != nil || len(rows) < 2 {
		return text
	}
	var b strings.Builder
	for _, row := range rows[1:] {
		for i, value := range row {
			if i > 0 {
				b.WriteString("; ")
			}
			if i < len(rows[0]) && rows[0][i] != "" {
				b.WriteString(rows[0][i] + ": ")
			}
			b.WriteString(value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
