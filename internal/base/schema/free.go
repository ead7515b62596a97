package schema

import (
	"bytes"
	"errors"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"
)

// Object is a JSON object with free keys, kept as the received bytes. Nil is
// sent as {}.
type Object jsontext.Value

// Nullable is an Object that may be null. Nil is sent as null.
type Nullable jsontext.Value

// ObjectOf is an Object whose known members are published and checked as the
// fields of T. Other members are kept too.
type ObjectOf[T any] jsontext.Value

// NullableOf is an ObjectOf that may be null.
type NullableOf[T any] jsontext.Value

// Array is a JSON array of anything. Nil is sent as [].
type Array jsontext.Value

// Any is any JSON. Nil is sent as null.
type Any jsontext.Value

var (
	null        = jsontext.Value("null")
	emptyObject = jsontext.Value("{}")
	emptyArray  = jsontext.Value("[]")
)

// Schema implements huma.SchemaProvider.
func (Object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// Schema implements huma.SchemaProvider.
func (Nullable) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true, Nullable: true}
}

// Schema implements huma.SchemaProvider.
func (ObjectOf[T]) Schema(r huma.Registry) *huma.Schema { return open[T](r) }

// open returns the schema of an object whose further members are kept as they are.
// They are warned of all the same, so that it does not take them as its own.
func open[T any](r huma.Registry) *huma.Schema {
	s := r.Schema(reflect.TypeFor[T](), true, "")
	if of := r.SchemaFromRef(s.Ref); of != nil {
		if of.Extensions == nil {
			of.Extensions = map[string]any{}
		}
		of.Extensions["x-open"] = true
	}
	return s
}

// Schema implements huma.SchemaProvider.
func (NullableOf[T]) Schema(r huma.Registry) *huma.Schema {
	return orNull(open[T](r))
}

// Schema implements huma.SchemaProvider.
func (Array) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{}}
}

// Schema implements huma.SchemaProvider.
func (Any) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// MarshalJSONTo implements json.MarshalerTo.
func (o Object) MarshalJSONTo(enc *jsontext.Encoder) error { return write(enc, o, emptyObject) }

// MarshalJSONTo implements json.MarshalerTo.
func (o Nullable) MarshalJSONTo(enc *jsontext.Encoder) error { return write(enc, o, null) }

// MarshalJSONTo implements json.MarshalerTo.
func (o ObjectOf[T]) MarshalJSONTo(enc *jsontext.Encoder) error { return write(enc, o, emptyObject) }

// MarshalJSONTo implements json.MarshalerTo.
func (o NullableOf[T]) MarshalJSONTo(enc *jsontext.Encoder) error { return write(enc, o, null) }

// MarshalJSONTo implements json.MarshalerTo.
func (a Array) MarshalJSONTo(enc *jsontext.Encoder) error { return write(enc, a, emptyArray) }

// MarshalJSONTo implements json.MarshalerTo.
func (a Any) MarshalJSONTo(enc *jsontext.Encoder) error { return write(enc, a, null) }

// UnmarshalJSONFrom implements json.UnmarshalerFrom. Null makes a nil Object.
func (o *Object) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return read(dec, o, "{n") }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (o *Nullable) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return read(dec, o, "{n") }

// UnmarshalJSONFrom implements json.UnmarshalerFrom. Null makes a nil ObjectOf.
func (o *ObjectOf[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return read(dec, o, "{n") }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (o *NullableOf[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return read(dec, o, "{n") }

// UnmarshalJSONFrom implements json.UnmarshalerFrom. Null makes a nil Array.
func (a *Array) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return read(dec, a, "[n") }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (a *Any) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return read(dec, a, `{["0tfn`) }

func write[T ~[]byte](enc *jsontext.Encoder, v T, empty jsontext.Value) error {
	if len(v) == 0 {
		return enc.WriteValue(empty)
	}
	return enc.WriteValue(jsontext.Value(v))
}

var errKind = errors.New("a value of another kind was expected")

func read[T ~[]byte](dec *jsontext.Decoder, into *T, kinds string) error {
	v, err := dec.ReadValue()
	switch {
	case err != nil:
		return err
	case strings.IndexByte(kinds, byte(v.Kind())) < 0:
		return errKind
	case v.Kind() == 'n':
		*into = nil
	default:
		*into = T(bytes.Clone(v))
	}
	return nil
}
