package ledger

import (
	"reflect"

	"agentd/internal/base/route"
)

// NewInput returns the input of an operation with parameters of the query.
func NewInput(row route.Route, query map[string]string) any {
	in := reflect.New(row.In)
	for _, f := range reflect.VisibleFields(row.In) {
		if v, ok := query[f.Tag.Get("query")]; ok {
			in.Elem().FieldByIndex(f.Index).SetString(v)
		}
	}
	return in.Interface()
}
