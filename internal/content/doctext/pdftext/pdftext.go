// Package pdftext extracts the text of PDF files. It is for a process of its own: the
// parser that it stands on has no bounds on time, memory and depth.
package pdftext

import (
	"bytes"
	"errors"
	"strings"

	"github.com/ledongthuc/pdf"

	"agentd/internal/content/doctext"
)

// maxForms is how deep drawings may stand in drawings.
const maxForms = 8

// errLong ends the reading of a page.
var errLong = errors.New("pdftext: the text has reached its limit")

// pageBreak is textindex.PageBreak with the lines that it separates.
const pageBreak = "\n\f\n"

// Text returns the text of all pages, with a form feed between two pages. limit
// bounds its bytes. Errors: doctext.ErrBroken, ErrEncrypted, ErrPages, ErrLong.
func Text(data []byte, limit int) (text string, err error) {
	defer func() {
		if recover() != nil { // the library panics at what it cannot read
			text, err = "", doctext.ErrBroken
		}
	}()
	r, err := open(data)
	if err != nil {
		return "", err
	}
	pages := r.NumPage()
	switch {
	case pages > doctext.MaxPages:
		return "", doctext.ErrPages
	case pages <= 0:
		return "", doctext.ErrBroken
	}
	w := &writer{limit: limit}
	fonts := map[string]*font{}
	broken := 0
	for i := 1; i <= pages; i++ {
		p := r.Page(i)
		page := &drawing{out: w, fonts: fonts}
		switch err := page.draw(p.V.Key("Contents"), p.Resources(), 0); {
		case errors.Is(err, errLong):
			return "", doctext.ErrLong
		case err != nil:
			broken++ // the others may still be worth reading
		}
		w.write(pageBreak)
	}
	if broken == pages {
		return "", doctext.ErrBroken
	}
	// Breaks of pages without text at the beginning stay: they number the others.
	return strings.TrimRight(strings.TrimLeft(w.text.String(), "\n "), "\n\f "), nil
}

// open reads the directory of a file. The library knows the versions 1.0 to 1.7;
// files of version 2.0 differ in nothing that matters here.
func open(data []byte) (*pdf.Reader, error) {
	if start := bytes.Index(data[:min(len(data), 1024)], []byte("%PDF-")); start < 0 || len(data) < start+100 {
		return nil, doctext.ErrBroken
	} else if start > 0 {
		data = data[start:]
	}
	data = bytes.TrimRight(data, "\x00\t\r\n ")
	data = append([]byte("%PDF-1.7\n"), data[len("%PDF-1.7\n"):]...)
	if end := bytes.LastIndex(data, []byte("%%EOF")); end > 0 {
		data = data[:end+len("%%EOF")]
	}
	r, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, pdf.ErrInvalidPassword), strings.Contains(err.Error(), "encrypt"):
		return nil, doctext.ErrEncrypted
	}
	return nil, doctext.ErrBroken
}

// writer collects text up to a limit.
type writer struct {
	text  strings.Builder
	limit int
	last  byte
}

func (w *writer) write(s string) {
	if w.text.Len()+len(s) > w.limit+len(pageBreak) {
		panic(errLong)
	}
	if s != "" {
		w.text.WriteString(s)
		w.last = s[len(s)-1]
	}
}
