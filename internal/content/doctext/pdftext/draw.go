package pdftext

import (
	"errors"
	"fmt"
	"math"

	"github.com/ledongthuc/pdf"
)

// Where glyphs are so far apart, in parts of the size of the font, that there is a
// space between them, and where lines are.
const (
	spaceGap = 0.2
	lineGap  = 0.4
)

// matrix is [a b 0; c d 0; e f 1], as of PDF.
type matrix struct{ a, b, c, d, e, f float64 }

func (m matrix) mul(n matrix) matrix {
	return matrix{
		m.a*n.a + m.b*n.c, m.a*n.b + m.b*n.d, m.c*n.a + m.d*n.c, m.c*n.b + m.d*n.d,
		m.e*n.a + m.f*n.c + n.e, m.e*n.b + m.f*n.d + n.f,
	}
}

func move(x, y float64) matrix { return matrix{1, 0, 0, 1, x, y} }

// drawing follows the operators of a page that place text.
type drawing struct {
	out   *writer
	fonts map[string]*font // by object, for all pages

	font                *font
	size                float64
	charSpace, leading  float64
	wordSpace           float64
	scale               float64
	text, line, current matrix
	saved               []matrix

	endX, endY float64 // where the last text ended
	begun      bool
}

// draw draws a stream with its resources. Errors: errLong, and what the library
// panics with.
func (d *drawing) draw(contents, resources pdf.Value, depth int) (err error) {
	defer func() {
		if r := recover(); r != nil {
			var ok bool
			if err, ok = r.(error); !ok {
				err = fmt.Errorf("pdftext: %v", r)
			}
		}
	}()
	if depth == 0 {
		d.current, d.scale = move(0, 0), 1
	}
	if contents.Kind() != pdf.Stream && contents.Kind() != pdf.Array {
		return nil
	}
	pdf.Interpret(contents, func(stack *pdf.Stack, operator string) {
		args := make([]pdf.Value, stack.Len())
		for i := len(args) - 1; i >= 0; i-- {
			args[i] = stack.Pop()
		}
		switch operator {
		case "Do":
			if len(args) == 1 && depth < maxForms {
				d.form(resources.Key("XObject").Key(args[0].Name()), resources, depth)
			}
		case "Tf":
			if len(args) == 2 {
				d.font, d.size = d.fontOf(resources.Key("Font").Key(args[0].Name())), args[1].Float64()
			}
		default:
			d.operate(operator, args)
		}
	})
	return nil
}

// form draws a drawing within the drawing.
func (d *drawing) form(v, resources pdf.Value, depth int) {
	if v.Key("Subtype").Name() != "Form" {
		return
	}
	if own := v.Key("Resources"); !own.IsNull() {
		resources = own
	}
	before := d.current
	if m := numbers(v.Key("Matrix")); len(m) == 6 {
		d.current = matrix{m[0], m[1], m[2], m[3], m[4], m[5]}.mul(d.current)
	}
	if err := d.draw(v, resources, depth+1); errors.Is(err, errLong) {
		panic(err)
	}
	d.current = before
}

// fontOf reads each font once.
func (d *drawing) fontOf(v pdf.Value) *font {
	if v.Kind() != pdf.Dict {
		return nil
	}
	key := v.String()
	f, ok := d.fonts[key]
	if !ok {
		f = newFont(v)
		d.fonts[key] = f
	}
	return f
}

func numbers(v pdf.Value) (all []float64) {
	for i := range min(v.Len(), 6) {
		all = append(all, v.Index(i).Float64())
	}
	return all
}

// operate does what an operator does to the state of text.
func (d *drawing) operate(operator string, args []pdf.Value) {
	n := make([]float64, 6) // missing operands are 0
	for i := range min(len(args), 6) {
		n[i] = args[i].Float64()
	}
	switch operator {
	case "q":
		d.saved = append(d.saved, d.current)
	case "Q":
		if last := len(d.saved) - 1; last >= 0 {
			d.current, d.saved = d.saved[last], d.saved[:last]
		}
	case "cm":
		d.current = matrix{n[0], n[1], n[2], n[3], n[4], n[5]}.mul(d.current)
	case "BT":
		d.text, d.line = move(0, 0), move(0, 0)
	case "Tm":
		d.line = matrix{n[0], n[1], n[2], n[3], n[4], n[5]}
		d.text = d.line
	case "Td":
		d.next(n[0], n[1])
	case "TD":
		d.leading = -n[1]
		d.next(n[0], n[1])
	case "T*":
		d.next(0, -d.leading)
	case "TL":
		d.leading = n[0]
	case "Tc":
		d.charSpace = n[0]
	case "Tw":
		d.wordSpace = n[0]
	case "Tz":
		d.scale = n[0] / 100
	default:
		d.operateShow(operator, args)
	}
}

// operateShow does the operators that show text.
func (d *drawing) operateShow(operator string, args []pdf.Value) {
	if len(args) == 0 {
		return
	}
	last := args[len(args)-1]
	switch operator {
	case "Tj":
		d.show(last.RawString())
	case "'", "\"":
		d.next(0, -d.leading)
		d.show(last.RawString())
	case "TJ":
		for i := range last.Len() {
			if x := last.Index(i); x.Kind() == pdf.String {
				d.show(x.RawString())
			} else {
				d.text = move(-x.Float64()/1000*d.size*d.scale, 0).mul(d.text)
			}
		}
	}
}

// next moves to another line.
func (d *drawing) next(x, y float64) {
	d.line = move(x, y).mul(d.line)
	d.text = d.line
}

// show writes text, after a space or the end of a line if it stands away from the text
// before it.
func (d *drawing) show(raw string) {
	if d.font == nil || raw == "" {
		return
	}
	text, width, codes := d.font.decode(raw)
	at := d.text.mul(d.current)
	size := math.Abs(d.size) * math.Max(math.Hypot(at.a, at.b), 0.001)
	switch {
	case !d.begun:
	case math.Abs(at.f-d.endY) > lineGap*size, at.e < d.endX-2*size:
		d.gap('\n')
	case math.Abs(at.e-d.endX) > spaceGap*size:
		d.gap(' ')
	}
	d.out.write(text)
	advance := width/1000*d.size + float64(codes)*d.charSpace
	if d.font.bytes == 1 {
		for i := range len(raw) {
			if raw[i] == ' ' {
				advance += d.wordSpace
			}
		}
	}
	d.text = move(advance*d.scale, 0).mul(d.text)
	end := d.text.mul(d.current)
	d.endX, d.endY, d.begun = end.e, end.f, true
}

// gap writes white space, unless there is some.
func (d *drawing) gap(c byte) {
	if d.out.last != '\n' && (c == '\n' || d.out.last != ' ') {
		d.out.write(string(c))
	}
}
