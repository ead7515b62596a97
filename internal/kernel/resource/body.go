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

// fill sets on t what a body says about it, as far as settable allows, and
// validates the whole. merges says whether the body changes what is there (or
// stands for itself). Errors: fault.Malformed; fault.Invalid with every wrong
// field.
func (p *plan[T]) fill(t *T, body jsontext.Value, as published, merges bool, settable func(*field) bool) error {
	said, err := schema.Members(body)
	if err != nil {
		return err
	}
	wrong := faults{}
	kept := said[:0]
	for _, m := range said {
		f := p.byName[m.Name]
		if f == nil || !settable(f) {
			kept = append(kept, m) // unknown to the schema too: only its syntax counts
			continue
		}
		switch {
		case m.Value.Kind() == 'n':
			if merges && f.required && !f.nullable {
				wrong.add(f.name, "required: it cannot be cleared")
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
	if err := wrong.collect(as.schema.Check(schema.Join(kept), false)); err != nil {
		return err
	}
	for _, m := range kept {
		f := p.byName[m.Name]
		if f == nil || !settable(f) || wrong.has(f.name) || f.secret && string(m.Value) == redacted {
			continue
		}
		at := f.at(t)
		at.SetZero() // decoding into what is there would merge
		if err := json.Unmarshal(m.Value, at.Addr().Interface()); err != nil {
			wrong.add(f.name, "its value cannot be read")
		}
	}
	return p.validate(t, wrong)
}

const redacted = `"` + secret.Redacted + `"`

// mergeInto gives the field's object on t with the patch's members merged in.
func (f *field) mergeInto(t any, patch jsontext.Value) (jsontext.Value, error) {
	now, err := json.Marshal(f.at(t).Interface())
	if err != nil {
		return nil, err
	}
	return schema.MergePatch(now, patch)
}

// validate adds what the kind finds wrong with t to what is known already. A
// field whose value was not taken over is not judged again.
func (p *plan[T]) validate(t *T, known faults) error {
	wrong := known
	if p.Validate != nil {
		for _, f := range p.Validate(t) {
			if top := f.Field[:strings.IndexAny(f.Field+".", ".[")]; !known.has(top) {
				wrong.add(f.Field, f.Message)
			}
		}
	}
	if len(wrong.list) > 0 {
		return fault.BadFields(wrong.list...)
	}
	return nil
}

// What a body may set.
func atCreation(f *field) bool { return !f.readOnly }
func afterwards(f *field) bool { return !f.readOnly && !f.immutable }

// faults collects wrong fields, and knows which top-level ones they are in.
type faults struct {
	list []fault.Field
}

func (w *faults) add(field, message string) {
	w.list = append(w.list, fault.Field{Field: field, Message: message})
}

// collect takes in a refusal that names fields, and gives back any other.
func (w *faults) collect(err error) error {
	if err == nil {
		return nil
	}
	if e := fault.From(err); e.Kind == fault.Invalid && len(e.Fields) > 0 {
		w.list = append(w.list, e.Fields...)
		return nil
	}
	return err
}

func (w *faults) has(top string) bool {
	return slices.ContainsFunc(w.list, func(f fault.Field) bool {
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
