package modelcall

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Layout is the order of the parts of an answer. It is the opaque data of the message on
// wires that want thinking back where it stood.
type Layout []Place

// Place is thinking as it came, a text of some bytes, or the next call.
type Place struct {
	Thinking jsontext.Value `json:"b,omitzero"`
	Text     int            `json:"t,omitzero"`
	Phase    string         `json:"p,omitzero"` // of the text, where the wire has one
	Call     bool           `json:"c,omitzero"`
}

// ReadLayout reads what [Layout.Encode] returned. A client may have kept it meanwhile:
// other data is none.
func ReadLayout(data string) (l Layout) {
	_ = json.Unmarshal([]byte(data), &l, Lenient)
	return l
}

// Encode returns the layout as opaque data; "" if nothing in it must go back.
func (l Layout) Encode() string {
	for _, p := range l {
		if p.Thinking != nil || p.Phase != "" {
			return strings.ToValidUTF8(string(MustMarshal(l)), "\uFFFD")
		}
	}
	return ""
}

// AddText adds a piece of text.
func (l *Layout) AddText(n int) {
	if all := *l; len(all) > 0 && all[len(all)-1].Text > 0 {
		all[len(all)-1].Text += n
	} else if n > 0 {
		*l = append(all, Place{Text: n})
	}
}

// Arrange returns an answer's parts in their order. Where text or calls have changed since,
// thinking stands first.
func Arrange[B any](l Layout, text string, calls []B, thinking func(jsontext.Value) B, texts func(text, phase string) []B) (parts []B) {
	size, places, phase := 0, 0, ""
	for _, p := range l {
		size += max(0, p.Text)
		if p.Call {
			places++
		}
		if p.Text > 0 {
			phase = p.Phase
		}
	}
	fits := size == len(text) && places == len(calls)
	for _, p := range l {
		switch {
		case p.Thinking.Kind() == '{':
			parts = append(parts, thinking(p.Thinking))
		case fits && p.Text > 0:
			parts = append(parts, texts(text[:p.Text], p.Phase)...)
			text = text[p.Text:]
		case fits && p.Call:
			parts = append(parts, calls[0])
			calls = calls[1:]
		}
	}
	if !fits {
		parts = append(append(parts, texts(text, phase)...), calls...)
	}
	return parts
}
