package resource

import "agentd/internal/base/route"

// Plain is a kind without a service of its own, as the program lists it: whatever
// makes the kernel's Deps can serve it.
type Plain struct {
	Name   string
	Routes func(Deps) []route.Route
}

// PlainKind lists a kind.
func PlainKind[T any](k Kind[T]) Plain {
	return Plain{k.Name, func(deps Deps) []route.Route { return Routes(NewStore(k, deps)) }}
}

// PlainVersioned lists a kind with versions.
func PlainVersioned[T any](k Kind[T], versions Versions[T]) Plain {
	return Plain{k.Name, func(deps Deps) []route.Route {
		v := NewVersioned(k, versions, deps)
		return append(Routes(v.Store), VersionRoutes(v)...)
	}}
}
