package doctext

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
)

// Bounds of a DOCX file.
const (
	maxParts = 10_000
	maxPart  = 256 << 20 // bytes of one part, decompressed
)

// compound is how files of older versions of Word begin, and all that are encrypted.
const compound = "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"

// docxParts are the parts of a file that have text, in the order of the result.
var docxParts = []string{"word/document.xml", "word/footnotes.xml", "word/endnotes.xml", "word/comments.xml"}

// DocxText extracts the text of a DOCX file: a paragraph or a row of a table is a line. It
// is for a process of its own (ParseFunc). Errors: ErrEncrypted, ErrBroken, ErrLong.
func DocxText(data []byte, limit int) (string, error) {
	if bytes.HasPrefix(data, []byte(compound)) {
		return "", ErrEncrypted
	}
	files, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil || len(files.File) > maxParts {
		return "", ErrBroken
	}
	byName := map[string]*zip.File{}
	for _, f := range files.File {
		byName[path.Clean(f.Name)] = f
	}
	if byName[docxParts[0]] == nil {
		return "", ErrBroken
	}
	out := &docxWriter{limit: limit}
	for _, name := range docxParts {
		if f := byName[name]; f != nil {
			if err := out.part(f); err != nil {
				return "", err
			}
		}
	}
	return strings.TrimSpace(out.text.String()), nil
}

// docxWriter writes the text of parts.
type docxWriter struct {
	text  strings.Builder
	limit int
	cells []int // of the open rows of tables, how many have begun
}

func (w *docxWriter) part(f *zip.File) error {
	if f.UncompressedSize64 > maxPart {
		return ErrHeavy
	}
	body, err := f.Open()
	if err != nil {
		return ErrBroken
	}
	defer body.Close()
	w.cells = nil
	tokens := xml.NewDecoder(io.LimitReader(body, maxPart))
	inText := false
	for {
		token, err := tokens.RawToken()
		switch {
		case errors.Is(err, io.EOF):
			w.end()
			return nil
		case err != nil:
			return ErrBroken
		case w.text.Len() > w.limit:
			return ErrLong
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "t"
			w.start(token.Name.Local)
		case xml.EndElement:
			inText = false
			w.close(token.Name.Local)
		case xml.CharData:
			if inText {
				w.text.Write(token)
			}
		}
	}
}

func (w *docxWriter) start(name string) {
	switch name {
	case "tab":
		w.text.WriteByte('\t')
	case "br", "cr":
		w.text.WriteByte('\n')
	case "noBreakHyphen":
		w.text.WriteByte('-')
	case "tr":
		w.cells = append(w.cells, 0)
	case "tc":
		if n := len(w.cells); n > 0 {
			if w.cells[n-1] > 0 {
				w.text.WriteString(" | ")
			}
			w.cells[n-1]++
		}
	}
}

func (w *docxWriter) close(name string) {
	switch name {
	case "p":
		if len(w.cells) > 0 { // within a cell
			w.text.WriteByte(' ')
			return
		}
		w.end()
	case "tr":
		w.cells = slices.Delete(w.cells, max(len(w.cells)-1, 0), len(w.cells))
		w.end()
	}
}

func (w *docxWriter) end() { w.text.WriteByte('\n') }
