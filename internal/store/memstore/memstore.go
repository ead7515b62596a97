// Package memstore keeps documents in memory, for tests of slices that need no
// database. One transaction runs at a time; it is rolled back if it fails.
package memstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// Store is a resource.Backend and the txn.Writer of its transactions. Its Tx
// methods accept only transactions of that Writer.
type Store struct {
	mu   sync.RWMutex
	docs map[key]resource.Doc
}

type key struct{ kind, tenant, id string }

// New returns an empty store.
func New() *Store { return &Store{docs: map[key]resource.Doc{}} }

type tx struct {
	ctx   context.Context
	undo  []func()
	hints []func()
}

func (t *tx) Context() context.Context { return t.ctx }
func (t *tx) AfterCommit(hint func())  { t.hints = append(t.hints, hint) }

// Write implements txn.Writer.
func (s *Store) Write(ctx context.Context, do func(txn.Tx) error) error {
	t := &tx{ctx: ctx}
	if err := s.commit(t, do); err != nil {
		return err
	}
	for _, hint := range t.hints {
		hint()
	}
	return nil
}

func (s *Store) commit(t *tx, do func(txn.Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := t.ctx.Err()
	if err == nil {
		err = do(t)
	}
	if err == nil {
		return nil
	}
	for _, undo := range slices.Backward(t.undo) {
		undo()
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.From(err)
	}
	return err
}

// Get implements resource.Backend.
func (s *Store) Get(_ context.Context, kind, tenant, id string) (resource.Doc, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.get(key{kind, tenant, id})
}

// LockTx implements resource.Backend.
func (s *Store) LockTx(_ txn.Tx, kind, tenant, id string) (resource.Doc, error) {
	return s.get(key{kind, tenant, id})
}

func (s *Store) get(k key) (resource.Doc, error) {
	doc, ok := s.docs[k]
	if !ok {
		return doc, resource.ErrAbsent
	}
	return read(doc), nil
}

// read returns a document as a reader of a database would receive it: a copy of
// the bytes, and no index values.
func read(doc resource.Doc) resource.Doc {
	doc.Body, doc.Index, doc.Unique, doc.Words = slices.Clone(doc.Body), [resource.Slots]string{}, "", nil
	return doc
}

// List implements resource.Backend.
func (s *Store) List(_ context.Context, q resource.Query) ([]resource.Doc, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.list(q), nil
}

// ListTx implements resource.Backend.
func (s *Store) ListTx(_ txn.Tx, q resource.Query) ([]resource.Doc, error) { return s.list(q), nil }

func (s *Store) list(q resource.Query) []resource.Doc {
	var found []resource.Doc
	for k, doc := range s.docs {
		if k.kind == q.Kind && k.tenant == q.Tenant && selects(q, doc) {
			found = append(found, read(doc))
		}
	}
	slices.SortFunc(found, func(a, b resource.Doc) int {
		if q.Asc {
			return strings.Compare(a.ID, b.ID)
		}
		return strings.Compare(b.ID, a.ID)
	})
	found = found[:min(q.Limit, len(found))]
	var weight page.Weight
	for i, doc := range found {
		if q.Page && weight.Full(len(doc.Body)) {
			return found[:i+1]
		}
	}
	return found
}

func selects(q resource.Query, doc resource.Doc) bool {
	for i, want := range q.Filter {
		if want != "" && doc.Index[i] != want {
			return false
		}
	}
	if q.Unique != "" && doc.Unique != q.Unique {
		return false
	}
	for _, begin := range q.Words {
		if !slices.ContainsFunc(doc.Words, func(word string) bool { return strings.HasPrefix(word, begin) }) {
			return false
		}
	}
	return q.After == "" || (q.Asc && doc.ID > q.After) || (!q.Asc && doc.ID < q.After)
}

// PutTx implements resource.Backend.
func (s *Store) PutTx(in txn.Tx, doc resource.Doc, was int64) error {
	k := key{doc.Kind, doc.Tenant, doc.ID}
	old, exists := s.docs[k]
	switch {
	case was == 0 && exists:
		return resource.ErrTaken
	case was != 0 && (!exists || old.Version != was):
		return resource.ErrStale
	}
	if doc.Unique != "" {
		for other, d := range s.docs {
			if other.kind == k.kind && other.tenant == k.tenant && other.id != k.id && d.Unique == doc.Unique {
				return resource.ErrTaken
			}
		}
	}
	doc.Body = slices.Clone(doc.Body)
	if was != 0 {
		doc.CreatedAt = old.CreatedAt
		if doc.Words == nil {
			doc.Words = old.Words
		}
	}
	s.set(in, k, doc)
	return nil
}

// DeleteTx implements resource.Backend.
func (s *Store) DeleteTx(in txn.Tx, kind, tenant, id string, version int64) error {
	k := key{kind, tenant, id}
	old, exists := s.docs[k]
	if !exists || old.Version != version {
		return resource.ErrStale
	}
	delete(s.docs, k)
	t := in.(*tx)
	t.undo = append(t.undo, func() { s.docs[k] = old })
	return nil
}

func (s *Store) set(in txn.Tx, k key, doc resource.Doc) {
	old, existed := s.docs[k]
	s.docs[k] = doc
	t := in.(*tx)
	t.undo = append(t.undo, func() {
		if existed {
			s.docs[k] = old
		} else {
			delete(s.docs, k)
		}
	})
}

var (
	_ resource.Backend = (*Store)(nil)
	_ txn.Writer       = (*Store)(nil)
)
