package schema

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
)

// Member is one name and value of a JSON object. Quoted is the name as it is
// written there.
type Member struct {
	Quoted jsontext.Value
	Name   string
	Value  jsontext.Value
}

// Members splits a strict JSON object. What it returns points into the bytes of
// object. Errors: fault.Malformed; fault.Invalid if the value is not an object.
func Members(object jsontext.Value) ([]Member, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(object))
	if dec.PeekKind() != '{' {
		if err := Syntax(object); err != nil {
			return nil, err
		}
		return nil, fault.BadFields(fault.Field{Field: "body", Message: "expected an object"})
	}
	members, err := readMembers(dec, object)
	if err == nil && len(bytes.TrimLeft(object[dec.InputOffset():], " \t\r\n")) == 0 {
		return members, nil
	}
	return nil, Syntax(object)
}

func readMembers(dec *jsontext.Decoder, object jsontext.Value) ([]Member, error) {
	next := func() (jsontext.Value, error) {
		v, err := dec.ReadValue()
		end := int(dec.InputOffset())
		return object[end-len(v) : end : end], err
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	members := make([]Member, 0, 16)
	for dec.PeekKind() != '}' {
		quoted, err := next()
		if err != nil {
			return nil, err
		}
		name, err := jsontext.AppendUnquote(nil, quoted)
		if err != nil {
			return nil, err
		}
		value, err := next()
		if err != nil {
			return nil, err
		}
		members = append(members, Member{quoted, string(name), value})
	}
	_, err := dec.ReadToken()
	return members, err
}

// Join is the opposite of [Members].
func Join(members []Member) jsontext.Value {
	object := jsontext.Value{'{'}
	for i, m := range members {
		if i > 0 {
			object = append(object, ',')
		}
		object = append(append(append(object, m.Quoted...), ':'), m.Value...)
	}
	return append(object, '}')
}

// MergePatch applies a merge patch (RFC 7396) to the first level of an object:
// a member that is null is removed, any other replaces the one of its name or
// is added behind the others. Members that protected names stay as they are.
// An object or patch without bytes, or that is null, has no members. Errors:
// those of [Members].
func MergePatch(object, patch jsontext.Value, protected ...string) (jsontext.Value, error) {
	into, err := Members(orEmpty(object))
	if err != nil {
		return nil, err
	}
	changes, err := Members(orEmpty(patch))
	if err != nil {
		return nil, err
	}
	for _, m := range changes {
		if slices.Contains(protected, m.Name) {
			continue
		}
		at := slices.IndexFunc(into, func(old Member) bool { return old.Name == m.Name })
		switch null := m.Value.Kind() == 'n'; {
		case at >= 0 && null:
			into = slices.Delete(into, at, at+1)
		case at >= 0:
			into[at] = m
		case !null:
			into = append(into, m)
		}
	}
	merged := Join(into)
	return merged, merged.Compact()
}

func orEmpty(object jsontext.Value) jsontext.Value {
	if len(object) == 0 || object.Kind() == 'n' {
		return emptyObject
	}
	return object
}
