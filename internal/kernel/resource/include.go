package resource

import (
	"bytes"
	"context"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Include is a member that a list adds to its resources where include names it, because
// it costs more to find out than a list may. See [Including].
type Include struct {
	name, doc string
	typ       reflect.Type
	of        func(ctx context.Context, tenant string, ids []string) (map[string]jsontext.Value, error)
}

// Including returns an Include of a name. of returns the member's value by id for all
// resources of a page at once; one that it leaves out does not have the member.
func Including[V any](name, doc string, of func(ctx context.Context, tenant string, ids []string) (map[string]V, error)) Include {
	return Include{
		name: name, doc: doc, typ: reflect.TypeFor[V](),
		of: func(ctx context.Context, tenant string, ids []string) (map[string]jsontext.Value, error) {
			values, err := of(ctx, tenant, ids)
			if err != nil {
				return nil, err
			}
			all := make(map[string]jsontext.Value, len(values))
			for id, v := range values {
				if all[id], err = json.Marshal(v); err != nil {
					return nil, fmt.Errorf("%s of %s: %w", name, id, err)
				}
			}
			return all, nil
		},
	}
}

// param is the query parameter of the list.
func (i Include) param() reflect.StructField {
	return reflect.StructField{
		Name: "Include", Type: reflect.TypeFor[string](),
		Tag: reflect.StructTag(`query:"include" enum:"` + i.name + `" page:"-" doc:"` + i.name + `: with ` + i.doc + `"`),
	}
}

// field is the member of a resource in the document.
func (i Include) field() reflect.StructField {
	return reflect.StructField{
		Name: camel(i.name), Type: i.typ,
		Tag: reflect.StructTag(`json:"` + i.name + `,omitzero" readOnly:"true" doc:"In lists with include=` + i.name + ` alone: ` + i.doc + `"`),
	}
}

// adding returns a function that shows documents as show does, with the member.
func (i Include) adding(ctx context.Context, tenant string, docs []Doc, show func([]byte, Doc) ([]byte, error)) (
	func([]byte, Doc) ([]byte, error), error,
) {
	if len(docs) == 0 {
		return show, nil
	}
	ids := make([]string, len(docs))
	for n, doc := range docs {
		ids[n] = doc.ID
	}
	values, err := i.of(ctx, tenant, ids)
	if err != nil {
		return nil, err
	}
	return func(dst []byte, doc Doc) ([]byte, error) {
		dst, err := show(dst, doc)
		value, ok := values[doc.ID]
		if err != nil || !ok {
			return dst, err
		}
		dst = append(append(append(bytes.TrimSuffix(dst, []byte("}")), `,"`...), i.name...), `":`...)
		return append(append(dst, value...), '}'), nil
	}, nil
}
