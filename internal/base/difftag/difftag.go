// Package difftag compares two values of a struct by the fields that a tag
// selects. A configuration is stored whole, but not every field of it makes it
// another one: a description may change without restarting a schedule. With a
// tag, each field says so where it is declared, and a test that uses [Undecided]
// refuses a field that does not say.
package difftag

import "reflect"

// Changed reports whether old and now differ in a field whose tag is "true".
// Fields of embedded structs count as their own. A nil slice or map equals an
// empty one.
func Changed[T any](tag string, old, now *T) bool {
	return changed(tag, reflect.ValueOf(old).Elem(), reflect.ValueOf(now).Elem())
}

func changed(tag string, old, now reflect.Value) bool {
	for i := range old.NumField() {
		f := old.Type().Field(i)
		switch {
		case f.Tag.Get(tag) == "true" && !same(old.Field(i), now.Field(i)):
			return true
		case f.Anonymous && f.Type.Kind() == reflect.Struct && f.Tag.Get(tag) == "" && changed(tag, old.Field(i), now.Field(i)):
			return true
		}
	}
	return false
}

func same(a, b reflect.Value) bool {
	if k := a.Kind(); (k == reflect.Slice || k == reflect.Map) && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// Undecided returns the names of the fields of a struct whose tag is neither
// "true" nor "false". An embedded struct may have the tag for all its fields.
func Undecided(tag string, t reflect.Type) (names []string) {
	for f := range t.Fields() {
		switch value, ok := f.Tag.Lookup(tag); {
		case value == "true", value == "false", f.Name == "_":
		case f.Anonymous && f.Type.Kind() == reflect.Struct && !ok:
			names = append(names, Undecided(tag, f.Type)...)
		default:
			names = append(names, f.Name)
		}
	}
	return names
}
