package resource

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Readable is a kind as it is read by whoever shows the changes of all kinds.
type Readable struct {
	Kind    string
	Readers Access
	// Row returns a resource as a list with fields=summary shows it, and its version.
	// Errors: those of Store.Read.
	Row func(ctx context.Context, tenant, id string) (row jsontext.Value, version int64, err error)
}

// Registry lists the kinds of a program that anybody with the access of [Kind.Readers]
// can read: [Routes] adds a kind whose resources it serves. A kind with operations of its
// own instead decides in those who may read what, and is not listed.
type Registry struct {
	mu  sync.Mutex
	all map[string]Readable
}

// NewRegistry returns an empty Registry.
func NewRegistry() *Registry { return &Registry{all: map[string]Readable{}} }

func (r *Registry) add(k Readable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[k.Kind] = k
}

// Kinds returns the kinds by their names.
func (r *Registry) Kinds() []Readable {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Readable, 0, len(r.all))
	for _, name := range slices.Sorted(maps.Keys(r.all)) {
		all = append(all, r.all[name])
	}
	return all
}

// register adds the kind of a store to the registry of its Deps.
func (s *Store[T]) register() {
	if s.deps.Kinds == nil {
		return
	}
	s.deps.Kinds.add(Readable{Kind: s.Name, Readers: s.Readers, Row: s.readRow})
}

func (s *Store[T]) readRow(ctx context.Context, tenant, id string) (jsontext.Value, int64, error) {
	doc, err := s.Read(ctx, tenant, id)
	if err != nil {
		return nil, 0, err
	}
	row, err := s.summary(nil, doc)
	return row, doc.Version, err
}
