package pdftext

import (
	"unicode/utf16"

	"github.com/ledongthuc/pdf"
)

// maxCodes bounds the codes of a font: two bytes have no more.
const maxCodes = 1 << 16

// cmap maps the codes of a font to text, by the font's ToUnicode table.
type cmap struct {
	text  map[uint32]string
	width int // bytes of a code
}

// readCmap reads a ToUnicode table; nil if it is none.
func readCmap(table pdf.Value) (m *cmap) {
	if table.Kind() != pdf.Stream {
		return nil
	}
	m = &cmap{text: map[uint32]string{}, width: 1}
	defer func() {
		if recover() != nil || len(m.text) == 0 { // the library panics at what it cannot read
			m = nil
		}
	}()
	pdf.Interpret(table, func(stack *pdf.Stack, operator string) {
		args := make([]pdf.Value, stack.Len())
		for i := len(args) - 1; i >= 0; i-- {
			args[i] = stack.Pop()
		}
		switch operator {
		case "endcodespacerange":
			for i := range args {
				m.width = min(max(m.width, len(args[i].RawString())), 4)
			}
		case "endbfchar":
			for ; len(args) >= 2; args = args[2:] {
				m.put(code(args[0].RawString()), decode16(args[1].RawString()))
			}
		case "endbfrange":
			for ; len(args) >= 3; args = args[3:] {
				m.putRange(code(args[0].RawString()), code(args[1].RawString()), args[2])
			}
		}
	})
	return m
}

func (m *cmap) put(code uint32, text string) {
	if len(m.text) < maxCodes {
		m.text[code] = text
	}
}

func (m *cmap) putRange(from, to uint32, target pdf.Value) {
	if to < from || to-from >= maxCodes {
		return
	}
	if target.Kind() == pdf.Array {
		for i := range min(int(to-from)+1, target.Len()) {
			m.put(from+uint32(i), decode16(target.Index(i).RawString()))
		}
		return
	}
	text := []rune(decode16(target.RawString()))
	if len(text) == 0 {
		return
	}
	for c := from; c <= to; c++ {
		m.put(c, string(text))
		text[len(text)-1]++
	}
}

func code(raw string) (c uint32) {
	for i := range min(len(raw), 4) {
		c = c<<8 | uint32(raw[i])
	}
	return c
}

func decode16(raw string) string {
	units := make([]uint16, 0, len(raw)/2)
	for i := 0; i+1 < len(raw); i += 2 {
		units = append(units, uint16(raw[i])<<8|uint16(raw[i+1]))
	}
	return string(utf16.Decode(units))
}
