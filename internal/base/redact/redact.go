// Package redact replaces data of some kinds in texts and JSON values, so that
// what is stored does not have it.
package redact

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/pii"
)

// maxNested is how many JSON texts that are strings of each other are read.
const maxNested = 4

// Redactor replaces data of some kinds by their labels, such as [EMAIL]. A nil
// one changes nothing.
type Redactor struct{ kinds []pii.Entity }

// New returns a redactor of these kinds; nil if there are none.
func New(kinds ...pii.Entity) *Redactor {
	if len(kinds) == 0 {
		return nil
	}
	return &Redactor{kinds}
}

// Text returns a text as it is stored.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return s
	}
	return pii.Redact(s, pii.Find(s, r.kinds...))
}

// Content returns a text that may be JSON as it is stored. JSON stays JSON.
func (r *Redactor) Content(s string) string {
	if r == nil {
		return s
	}
	return r.content(s, 0)
}

// JSON returns a value with all its texts, names and numbers as they are stored. A value
// that holds nothing to replace is returned as it is, to the byte.
func (r *Redactor) JSON(v jsontext.Value) jsontext.Value {
	if r == nil || len(v) == 0 {
		return v
	}
	out, changed := r.json(v, 0)
	if !changed {
		return v
	}
	return out
}

func (r *Redactor) content(s string, depth int) string {
	if trimmed := strings.TrimLeft(s, " \t\r\n"); depth < maxNested && trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') {
		if v := jsontext.Value(s); v.IsValid() {
			if out, changed := r.json(v, depth+1); changed {
				return string(out)
			}
			return s
		}
	}
	return r.Text(s)
}

// lax reads and writes what models and tools wrote.
var lax = []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)}

// json returns a value that was redacted. A value that cannot be read is redacted
// as a text.
func (r *Redactor) json(v jsontext.Value, depth int) (out jsontext.Value, changed bool) {
	var b bytes.Buffer
	w := writer{r: r, depth: depth, in: jsontext.NewDecoder(bytes.NewReader(v), lax...), out: jsontext.NewEncoder(&b, lax...)}
	if err := w.value(); err != nil {
		text := r.Text(string(v))
		quoted, _ := jsontext.AppendQuote(nil, text) // the error only reports invalid UTF-8, which is replaced
		return quoted, text != string(v)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), w.changed
}

// writer copies a value and redacts it on the way.
type writer struct {
	r       *Redactor
	depth   int
	in      *jsontext.Decoder
	out     *jsontext.Encoder
	changed bool
}

func (w *writer) value() error {
	t, err := w.in.ReadToken()
	if err != nil {
		return err
	}
	switch t.Kind() {
	case '{', '[':
		return w.members(t)
	case '"':
		s := t.String()
		redacted := w.r.content(s, w.depth)
		w.changed = w.changed || redacted != s
		return w.out.WriteToken(jsontext.String(redacted))
	case '0':
		s := t.String()
		if redacted := w.r.Text(s); redacted != s {
			w.changed = true
			return w.out.WriteToken(jsontext.String(redacted))
		}
		return w.out.WriteValue(jsontext.Value(s))
	}
	return w.out.WriteToken(t)
}

// members copies an object or an array.
func (w *writer) members(begin jsontext.Token) error {
	object := begin.Kind() == '{'
	if err := w.out.WriteToken(begin); err != nil {
		return err
	}
	labels := map[string]int{} // of names that were redacted
	for w.in.PeekKind() != '}' && w.in.PeekKind() != ']' {
		if object {
			if err := w.name(labels); err != nil {
				return err
			}
		}
		if err := w.value(); err != nil {
			return err
		}
	}
	end, err := w.in.ReadToken()
	if err != nil {
		return err
	}
	return w.out.WriteToken(end)
}

// name copies the name of a member. Names that are alike once they are redacted are
// numbered, so that the object has no name twice.
func (w *writer) name(labels map[string]int) error {
	t, err := w.in.ReadToken()
	if err != nil {
		return err
	}
	s := t.String()
	redacted := w.r.Text(s)
	if redacted != s {
		w.changed = true
		labels[redacted]++
		if n := labels[redacted]; n > 1 {
			redacted = fmt.Sprintf("%s %d", redacted, n)
		}
	}
	return w.out.WriteToken(jsontext.String(redacted))
}
