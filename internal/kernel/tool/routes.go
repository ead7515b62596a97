package tool

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

type listIn struct{}

// entryShown is a built-in tool as operators see it.
type entryShown struct {
	_ struct{} `json:"-" name:"BuiltInTool"`

	ID          string         `json:"id" required:"true" doc:"What agents name in built_in_tools."`
	Name        string         `json:"name" required:"true"`
	Description string         `json:"description" required:"true" doc:"What models are told of it."`
	Parameters  jsontext.Value `json:"parameters" required:"true" doc:"JSON Schema of its arguments."`
	ReadOnly    bool           `json:"read_only" required:"true"`
	Idempotent  bool           `json:"idempotent" required:"true" doc:"A call that is made twice has the effect of one."`
	TimeoutMS   int64          `json:"timeout_ms" required:"true" doc:"How long one call may take."`
}

type listShown struct {
	_ struct{} `json:"-" name:"BuiltInToolList"`

	Tools []entryShown `json:"tools" required:"true"`
	Count int          `json:"count" required:"true"`
}

// Routes returns the operation that lists the registry's tools for operators.
func (r *Registry) Routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/admin/tools", ID: "listBuiltInTools", Tag: "Admin",
			Summary: "List the built-in tools", Scopes: []authz.Scope{authz.SuperScope}, Role: authz.Admin,
		}, func(context.Context, authz.Caller, *listIn) (listShown, error) {
			list := listShown{Count: len(r.names)}
			for _, t := range r.Tools() {
				list.Tools = append(list.Tools, entryShown{
					ID: t.Name, Name: t.Name, Description: t.Description, Parameters: t.Parameters,
					ReadOnly: t.ReadOnly, Idempotent: t.Idempotent, TimeoutMS: t.Timeout.Milliseconds(),
				})
			}
			return list, nil
		}),
	}
}
