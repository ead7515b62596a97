package knowledge_test

import (
	"reflect"

	"agentd/internal/base/schema"
)

// try calls an operation as the HTTP edge does, on the rig's base.
func (r *rig) try(id, body string) (any, error) {
	r.Helper()
	for _, row := range r.Routes() {
		if row.ID != id {
			continue
		}
		in := reflect.New(row.In)
		if f := in.Elem().FieldByName("ID"); f.IsValid() {
			f.SetString(r.base)
		}
		if f := in.Elem().FieldByName("Body"); f.IsValid() {
			if err := schema.For(f.Type()).DecodeInto([]byte(body), f.Addr().Interface(), false); err != nil {
				return nil, err
			}
		}
		return row.Call(r.Context(), r.who, in.Interface())
	}
	r.Fatalf("there is no operation %s", id)
	return nil, nil
}

func (r *rig) call(id, body string) any {
	r.Helper()
	out, err := r.try(id, body)
	if err != nil {
		r.Fatal(err)
	}
	return out
}
