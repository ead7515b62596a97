package resource

import (
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/secret"
)

// fill sets the members of a body on t, as far as settable allows them, and
// validates the whole of t. With merges the body changes the present values of
// t; without, it stands for itself. Errors: fault.Malformed; fault.Invalid with
// every invalid field.
func (p *plan[T]) fill(t *T, body jsontext.Value, as published, merges bool, settable func(*field) bool) error {
	members, err := schema.Members(body)
	if err != nil {
		return err
	}
	invalid := faults{}
	kept := members[:0]
	for _, m := range members {
		f := p.byName[m.Name]
		if f == nil || !settable(f) {
			kept = append(kept, m) // unknown to the schema too: only its syntax counts
			continue
		}
		switch {
		case m.Value.Kind() == 'n':
			if merges && f.required && !f.nullable {
				invalid.list = append(invalid.list, fault.Field{Field: f.name, Message: "required: it cannot be cleared", Code: fault.CodeRequired})
			}
			f.at(t).Set(f.at(p.blank()))
			continue
		case f.merge && merges && m.Value.Kind() == '{':
			if m.Value, err = f.mergeInto(t, m.Value); err != nil {
				return err
			}
		}
		kept = append(kept, m)
	}
	if err := invalid.collect(as.schema.Check(schema.Join(kept), false)); err != nil {
		return err
	}
	for _, m := range kept {
		f := p.byName[m.Name]
		if f == nil || !settable(f) || invalid.has(f.name) || f.secret && string(m.Value) == redacted {
			continue
		}
		at := f.at(t)
		at.SetZero() // decoding into what is there would merge
		if err := json.Unmarshal(m.Value, at.Addr().Interface()); err != nil {
			invalid.add(f.name, "its value cannot be read")
		}
	}
	return p.validate(t, invalid)
}

const redacted = `"` + secret.Redacted + `"`

// mergeInto returns the field's object on t with the patch's members merged in.
func (f *field) mergeInto(t any, patch jsontext.Value) (jsontext.Value, error) {
	now, err := json.Marshal(f.at(t).Interface())
	if err != nil {
		return nil, err
	}
	return schema.MergePatch(now, patch)
}

// validate adds the errors of Kind.Validate to those that are known. It ignores
// those about fields that are known to be invalid: their values were not set.
func (p *plan[T]) validate(t *T, known faults) error {
	invalid := known
	if p.Validate != nil {
		for _, f := range p.Validate(t) {
			if top := f.Field[:strings.IndexAny(f.Field+".", ".[")]; !known.has(top) {
				invalid.list = append(invalid.list, f)
			}
		}
	}
	if len(invalid.list) > 0 {
		return fault.BadFields(invalid.list...)
	}
	return nil
}

// The fields that a body may set at the creation of a resource, and afterwards.
func atCreation(f *field) bool { return !f.readOnly }
func afterwards(f *field) bool { return !f.readOnly && !f.immutable }

// faults collects invalid fields.
type faults struct {
	list []fault.Field
}

func (l *faults) add(field, message string) {
	l.list = append(l.list, fault.Field{Field: field, Message: message})
}

// collect adds the fields that err names, and returns an error that names none.
func (l *faults) collect(err error) error {
	if err == nil {
		return nil
	}
	if e := fault.From(err); e.Kind == fault.Invalid && len(e.Fields) > 0 {
		l.list = append(l.list, e.Fields...)
		return nil
	}
	return err
}

// has reports whether one of the fields is top, or lies within it.
func (l *faults) has(top string) bool {
	return slices.ContainsFunc(l.list, func(f fault.Field) bool {
		rest, ok := strings.CutPrefix(f.Field, top)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// copyFields sets the fields of to that keep selects to from's values.
func (p *plan[T]) copyFields(to, from *T, keep func(*field) bool) {
	src, dst := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	for i := range p.fields {
		if f := &p.fields[i]; keep(f) {
			dst.FieldByIndex(f.Index).Set(src.FieldByIndex(f.Index))
		}
	}
}
