// Package doctexttest makes PDF and DOCX documents for tests.
package doctexttest

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"fmt"
	"strings"
	"testing"
)

// PDF makes a PDF file: each page has lines of text in Helvetica, in a compressed
// stream.
func PDF(pages ...string) []byte {
	var contents []string
	for _, page := range pages {
		var c strings.Builder
		c.WriteString("BT /F1 12 Tf 14 TL 72 720 Td\n")
		for line := range strings.Lines(page) {
			line = strings.NewReplacer(`\`, `\\`, "(", `\(`, ")", `\)`).Replace(strings.TrimSuffix(line, "\n"))
			fmt.Fprintf(&c, "(%s) Tj T*\n", line)
		}
		c.WriteString("ET")
		contents = append(contents, c.String())
	}
	return PDFOf(contents...)
}

// PDFOf makes a PDF file of the operators of its pages. F1 is Helvetica.
func PDFOf(pages ...string) []byte {
	objects := []string{"<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"}
	var kids []string
	for _, page := range pages {
		var packed bytes.Buffer
		z := zlib.NewWriter(&packed)
		_, _ = z.Write([]byte(page)) // into memory
		_ = z.Close()
		n := len(objects)
		objects = append(objects,
			fmt.Sprintf("<</Length %d/Filter/FlateDecode>>\nstream\n%s\nendstream", packed.Len(), packed.String()),
			fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>", n+1))
		kids = append(kids, fmt.Sprintf("%d 0 R", n+2))
	}
	objects[1] = fmt.Sprintf("<</Type/Pages/Count %d/Kids[%s]>>", len(pages), strings.Join(kids, " "))
	return Assemble("/Root 1 0 R", objects...)
}

// Assemble makes a PDF file of its objects, numbered from 1, and more of its trailer.
func Assemble(trailer string, objects ...string) []byte {
	var file bytes.Buffer
	file.WriteString("%PDF-1.4\n")
	var table strings.Builder
	for i, o := range objects {
		fmt.Fprintf(&table, "%010d 00000 n \n", file.Len())
		fmt.Fprintf(&file, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := file.Len()
	fmt.Fprintf(&file, "xref\n0 %d\n0000000000 65535 f \n%strailer\n<</Size %d%s>>\nstartxref\n%d\n%%%%EOF\n",
		len(objects)+1, table.String(), len(objects)+1, trailer, start)
	return file.Bytes()
}

// DOCX makes a DOCX file with the XML of its body.
func DOCX(t testing.TB, body string) []byte {
	t.Helper()
	return Zip(t, map[string]string{
		"[Content_Types].xml": `<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>`,
		"word/document.xml": `<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>` +
			body + `</w:body></w:document>`,
	})
}

// Zip makes a ZIP file of its files.
func Zip(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, text := range files {
		f, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
