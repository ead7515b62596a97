// Package ptr reads optional values.
package ptr

// Value returns what p points to, or the zero value where p is nil.
func Value[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}
