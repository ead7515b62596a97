package resource

import (
	"context"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// Find selects a page of a kind's resources, newest first.
type Find struct {
	Where  map[string]string // values of indexes by their names; "" matches all
	Unique string            // value of the unique index; "" matches all
	Words  string            // beginnings of words of the label; "" matches all
	Asc    bool              // oldest first
	After  string            // only those after this id; "" from the start
	Limit  int               // at least 1
	Page   bool              // stops short of Limit when the resources are large, but not before the first
}

func (s *Store[T]) query(tenant string, f Find) (Query, error) {
	q := Query{Kind: s.Name, Tenant: tenant, Unique: f.Unique, Asc: f.Asc, After: f.After, Limit: f.Limit, Page: f.Page}
	if f.Words != "" {
		q.Words = wordsOf(f.Words)
	}
	for name, value := range f.Where {
		slot, ok := s.slot[name]
		if !ok {
			return q, fault.New(fault.Internal, "", "There is no index %s of %s.", name, s.Name)
		}
		q.Filter[slot] = value
	}
	return q, nil
}

// List reads a page of resources.
func (s *Store[T]) List(ctx context.Context, tenant string, f Find) ([]*T, error) {
	q, err := s.query(tenant, f)
	if err != nil {
		return nil, err
	}
	return s.decodeAll(s.deps.Backend.List(ctx, q))
}

// ListTx is List inside a transaction. It locks nothing.
func (s *Store[T]) ListTx(tx txn.Tx, tenant string, f Find) ([]*T, error) {
	q, err := s.query(tenant, f)
	if err != nil {
		return nil, err
	}
	return s.decodeAll(s.deps.Backend.ListTx(tx, q))
}
