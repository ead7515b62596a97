package resource

import (
	"context"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// Find asks for a page of a kind's resources, newest first.
type Find struct {
	Where  map[string]string // values of indexes by their names; "" is any
	Unique string            // value of the unique index; "" is any
	Asc    bool              // oldest first
	After  string            // behind this id; "" from the start
	Limit  int               // at least 1
	Page   bool              // fewer than Limit where they are large; at least one, if there is one
}

func (s *Store[T]) query(tenant string, f Find) (Query, error) {
	q := Query{Kind: s.Name, Tenant: tenant, Unique: f.Unique, Asc: f.Asc, After: f.After, Limit: f.Limit, Page: f.Page}
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

func (s *Store[T]) decodeAll(docs []Doc, err error) ([]*T, error) {
	all := make([]*T, 0, len(docs))
	for _, doc := range docs {
		t, err := s.Decode(doc)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, err
}

// Listing is a list's request as clients send it.
type Listing struct {
	Limit, Cursor string
	Where         map[string]string
}

// Page answers a list: {items, cursor, has_more}, and the items once more under
// each of Kind.Keys. Errors: INVALID_CURSOR.
func (s *Store[T]) Page(ctx context.Context, tenant string, in Listing) (*route.Reply, error) {
	q, err := s.query(tenant, Find{Where: in.Where})
	if err != nil {
		return nil, err
	}
	scope := page.Scope{Tenant: tenant, List: s.Name, Filter: q.Filter[:]}
	if q.After, err = s.deps.Cursors.Open(scope, in.Cursor); err != nil {
		return nil, err
	}
	limit := page.Limit(in.Limit, s.PageSize, s.MaxPageSize)
	q.Limit, q.Page = limit+1, true
	docs, err := s.deps.Backend.List(ctx, q)
	if err != nil {
		return nil, err
	}
	next := ""
	docs, more := page.Cut(docs, limit, func(d Doc) int { return len(d.Body) })
	if more {
		next = s.deps.Cursors.Seal(scope, docs[len(docs)-1].ID)
	}
	return s.wirePage(docs, next)
}

func (s *Store[T]) wirePage(docs []Doc, next string) (*route.Reply, error) {
	size := 100
	for _, doc := range docs {
		size += len(doc.Body) + 220
	}
	out := append(make([]byte, 0, size*(1+len(s.Keys))), `{"items":`...)
	from := len(out)
	out = append(out, '[')
	for i, doc := range docs {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = s.wireDoc(out, doc); err != nil {
			return nil, err
		}
	}
	out = append(out, ']')
	items := out[from:len(out):len(out)]
	for _, key := range s.Keys {
		out = append(append(append(out, `,"`...), key...), `":`...)
		out = append(out, items...)
	}
	if next == "" {
		return &route.Reply{JSON: append(out, `,"cursor":null,"has_more":false}`...)}, nil
	}
	out = append(append(append(out, `,"cursor":"`...), next...), `","has_more":true}`...)
	return &route.Reply{JSON: out}, nil
}
