package schema

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
)

// Decode checks data and decodes it into a new T whose fields start with the
// values of their default tags. Errors: as Check.
func Decode[T any](data []byte) (*T, error) {
	v := new(T)
	return v, For(reflect.TypeFor[T]()).DecodeInto(data, v, false)
}

// checked holds for bytes that passed Check.
var checked = json.JoinOptions(jsontext.AllowDuplicateNames(true))

// DecodeInto is Decode into a pointer to a zero value of the schema's type. A
// partial value gets no defaults.
func (s *Schema) DecodeInto(data []byte, v any, partial bool) error {
	if err := s.Check(data, partial); err != nil {
		return err
	}
	return s.decode(data, v, partial)
}

// decode decodes what passed Check.
func (s *Schema) decode(data []byte, v any, partial bool) error {
	if defaults := s.plan().defaults; defaults != nil && !partial {
		rv := reflect.ValueOf(v).Elem()
		for _, d := range defaults {
			rv.FieldByIndex(d.index).Set(d.value)
		}
	}
	if err := json.Unmarshal(data, v, checked); err != nil {
		return unread(err)
	}
	return nil
}

// unread returns the refusal of a value whose type unmarshals itself and is
// stricter than its schema.
func unread(err error) error {
	se, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return malformed(err)
	}
	path := strings.ReplaceAll(strings.TrimPrefix(string(se.JSONPointer), "/"), "/", ".")
	if path == "" {
		path = "body"
	}
	return fault.BadFields(fault.Field{Field: path, Message: "its value cannot be read"}).Because(err)
}

type fieldDefault struct {
	index []int
	value reflect.Value
}

// defaultsOf collects the default tags of scalar fields, also of structs
// within the struct, but not behind pointers.
func defaultsOf(t reflect.Type) []fieldDefault {
	if t.Kind() != reflect.Struct {
		return nil
	}
	var found []fieldDefault
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		if tag, ok := f.Tag.Lookup("default"); ok {
			v := reflect.New(f.Type).Elem()
			if f.Type.Kind() == reflect.Pointer { // every decoded value would share it
				panic("schema: default of the pointer " + t.String() + "." + f.Name)
			}
			if err := SetScalar(v, tag); err != nil {
				panic("schema: default of " + t.String() + "." + f.Name + ": " + err.Error())
			}
			found = append(found, fieldDefault{f.Index, v})
			continue
		}
		for _, inner := range defaultsOf(f.Type) {
			found = append(found, fieldDefault{append([]int{i}, inner.index...), inner.value})
		}
	}
	return found
}

var errScalar = errors.New("only strings, numbers, booleans and times are read from text")

// SetScalar parses text into a string, integer, float, bool or time, or into a
// new one where v is a pointer to one.
func SetScalar(v reflect.Value, text string) (err error) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int32, reflect.Int64:
		var n int64
		n, err = strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(n)
	case reflect.Float64:
		var n float64
		n, err = strconv.ParseFloat(text, 64)
		v.SetFloat(n)
	case reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		v.SetBool(b)
	case reflect.Struct:
		at, ok := reflect.TypeAssert[*time.Time](v.Addr())
		if !ok {
			return errScalar
		}
		err = at.UnmarshalText([]byte(text))
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		err = SetScalar(p.Elem(), text)
		v.Set(p)
	default:
		err = errScalar
	}
	return err
}
