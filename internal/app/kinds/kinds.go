// Package kinds lists the kinds of resources that have no service of their own.
package kinds

import (
	"agentd/internal/base/route"
	"agentd/internal/commerce/customer"
	"agentd/internal/kernel/resource"
)

// All are the kinds that the program serves and the OpenAPI document describes. A
// new kind is a row here.
var All = []resource.Plain{
	resource.PlainKind(customer.Customers),
}

// Routes returns the operations of all of them.
func Routes(deps resource.Deps) []route.Route {
	var all []route.Route
	for _, k := range All {
		all = append(all, k.Routes(deps)...)
	}
	return all
}
