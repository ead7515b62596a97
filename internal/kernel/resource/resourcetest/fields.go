package resourcetest

import (
	"reflect"
	"strings"
)

// settable returns the JSON names of T's fields that clients set.
func settable[T any]() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" && f.Tag.Get("readOnly") != "true" {
			names = append(names, name)
		}
	}
	return names
}

// fields returns the JSON names of T's fields that have a tag.
func fields[T any](tag string) []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if f.Tag.Get(tag) == "true" {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}
