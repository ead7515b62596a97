package pdftext

import (
	"strings"

	"github.com/ledongthuc/pdf"
)

// font decodes the strings of one font.
type font struct {
	unicode *cmap            // from its ToUnicode table, or nil
	encoder pdf.TextEncoding // where there is none
	bytes   int              // of a code
	widths  map[uint32]float64
	missing float64 // the width of a code that has none, in thousandths
}

func newFont(v pdf.Value) *font {
	f := &font{unicode: readCmap(v.Key("ToUnicode")), bytes: 1, widths: map[uint32]float64{}}
	if v.Key("Subtype").Name() == "Type0" {
		f.bytes = 2
		f.readCIDWidths(v.Key("DescendantFonts").Index(0))
	} else {
		first, widths := v.Key("FirstChar").Int64(), v.Key("Widths")
		for i := range min(widths.Len(), 256) {
			f.widths[uint32(first)+uint32(i)] = widths.Index(i).Float64()
		}
		f.missing = 500
	}
	if f.unicode != nil {
		f.bytes = max(f.bytes, f.unicode.width)
		return f
	}
	font := pdf.Font{V: v}
	f.encoder = font.Encoder()
	return f
}

// readCIDWidths reads "first [w w w]" and "first last w" of a composite font.
func (f *font) readCIDWidths(v pdf.Value) {
	f.missing = 1000
	if d := v.Key("DW"); !d.IsNull() {
		f.missing = d.Float64()
	}
	w := v.Key("W")
	for i := 0; i+1 < w.Len() && len(f.widths) < maxCodes; {
		first := uint32(w.Index(i).Int64())
		if list := w.Index(i + 1); list.Kind() == pdf.Array {
			for j := range min(list.Len(), maxCodes) {
				f.widths[first+uint32(j)] = list.Index(j).Float64()
			}
			i += 2
			continue
		}
		last, width := uint32(w.Index(i+1).Int64()), w.Index(i+2).Float64()
		for c := first; c <= last && c-first < maxCodes; c++ {
			f.widths[c] = width
		}
		i += 3
	}
}

// decode returns the text of a string, its width in thousandths of the font's size, and
// how many codes it has.
func (f *font) decode(raw string) (text string, width float64, codes int) {
	var out strings.Builder
	for i := 0; i < len(raw); i += f.bytes {
		c := code(raw[i:min(i+f.bytes, len(raw))])
		w, ok := f.widths[c]
		if !ok {
			w = f.missing
		}
		width += w
		codes++
		if f.unicode != nil {
			out.WriteString(f.unicode.text[c])
		}
	}
	if f.unicode == nil {
		out.WriteString(f.encoder.Decode(raw))
	}
	return out.String(), width, codes
}
