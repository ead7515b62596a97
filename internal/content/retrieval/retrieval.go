// Package retrieval keeps collections of passages that are searched: the
// entries of an agent's memory, and the chunks of a knowledge base.
//
// A passage is found by its words as soon as it is committed. Its vector comes
// after the commit, as leased work, so that no write waits for an embedding
// model; where none is configured passages stay without. Searching happens in
// memory, in an index of the collection that follows the database by a
// counter: every change of a collection raises it, and a search looks at it
// first, so that what another node committed is found by the next search.
package retrieval

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/base/cache"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/work"
)

// Passage is a text of a collection.
type Passage struct {
	ID       string
	SourceID string // what it is part of: a document; "": nothing
	Position int    // in its source, from 0
	Kind     string // searches may ask for some kinds only
	Text     string
	Boost    float64
	At       time.Time // since when it ages

	Vector  []float32 // nil: none (yet)
	Model   string    // of the vector, or of the attempt to make one; "": not tried
	Version int64     // of the collection, when it changed last
}

// Weight is what decides which passages a full collection gives up.
type Weight struct {
	ID    string
	Boost float64
	At    time.Time
}

// Vector is what an embedding model made of a passage.
type Vector struct {
	ID      string
	Version int64     // of the passage that was read: if it is another one now, the vector is dropped
	Values  []float32 // nil: the model does not take the text
}

// State is where a collection stands. The zero State is a collection that has
// never been written.
type State struct {
	Version int64
	Removed int64 // the version that removed something last
}

// Count is how many passages of a source there are, and how many of them the
// current embedding model has seen.
type Count struct {
	Total, Embedded, Pending int
}

// Store is the port to the tables. Every call takes the tenant: a collection of
// another tenant is empty.
type Store interface {
	// IncrementVersionTx raises the version of a collection, which others cannot change
	// until the transaction ends.
	IncrementVersionTx(tx txn.Tx, tenant, collection string) (version int64, err error)
	CreateTx(tx txn.Tx, tenant, collection string, version int64, passages []Passage) error
	// UpdateTx writes kind, text, boost and time of a passage, and forgets its
	// vector if it is to be embedded anew.
	UpdateTx(tx txn.Tx, tenant, collection string, version int64, p Passage, anew bool) error
	DeleteTx(tx txn.Tx, tenant, collection string, version int64, ids []string) error
	DeleteSourceTx(tx txn.Tx, tenant, collection string, version int64, source string) error
	DeleteCollectionTx(tx txn.Tx, tenant, collection string) error
	UpdateVectorsTx(tx txn.Tx, tenant, collection string, version int64, model string, vectors []Vector) error
	// ResetFailedTx forgets that a model did not take a text.
	ResetFailedTx(tx txn.Tx, tenant, collection string, version int64) error
	ListWeightsTx(tx txn.Tx, tenant, collection string) ([]Weight, error)
	// HasPendingTx says whether the model has not seen some passage.
	HasPendingTx(tx txn.Tx, tenant, collection, model string) (bool, error)

	GetState(ctx context.Context, tenant, collection string) (State, error)
	// VisitChanged gives the passages with a version above one, in no order.
	VisitChanged(ctx context.Context, tenant, collection string, after int64, each func(Passage)) error
	ListIDs(ctx context.Context, tenant, collection string) ([]string, error)
	// ListByID gives passages by their ids, without vectors; what is absent is left out.
	ListByID(ctx context.Context, tenant, collection string, ids []string) (map[string]Passage, error)
	// ListPending gives passages that the model has not seen, without vectors.
	ListPending(ctx context.Context, tenant, collection, model string, limit int) ([]Passage, error)
	// CountBySource counts the passages by their sources.
	CountBySource(ctx context.Context, tenant, collection, model string) (map[string]Count, error)
}

// WorkKind is the kind of the work that embeds; the key is the collection.
const WorkKind = "embed"

// maxEmbedded is how many characters of a text are embedded (behaviours.md
// section 36).
const maxEmbedded = 8000

// cacheBytes bounds the memory that indexes take. A collection that is larger
// still has its index kept while nothing else is searched.
const cacheBytes = 256 << 20

// Config is what a Service is made of.
type Config struct {
	Store    Store
	Writer   txn.Writer
	Queue    work.Queue
	Embedder model.Embedder // nil: passages are found by their words only
	Clock    clock.Clock
	Log      *slog.Logger
	Lease    time.Duration // of the work
}

// Service searches collections and embeds what is in them. It is safe for
// concurrent use.
type Service struct {
	Config
	cache *cache.Cache[key, *indexed]
}

type key struct{ tenant, collection string }

// New makes a service.
func New(c Config) *Service {
	return &Service{c, cache.New(cache.Options[key, *indexed]{
		Weight: cacheBytes,
		Weigh:  func(_ key, x *indexed) uint32 { return uint32(min(max(x.bytes.Load(), 1<<10), cacheBytes)) },
	})}
}

// Model is the name of the current embedding model; "" where there is none.
func (s *Service) Model() string {
	if s.Embedder == nil {
		return ""
	}
	return s.Embedder.Model()
}

// Edit is a change of a collection in a transaction.
type Edit struct {
	service            *Service
	tx                 txn.Tx
	tenant, collection string
	version            int64
}

// Edit begins a change. Until the transaction ends nobody else changes the
// collection.
func (s *Service) Edit(tx txn.Tx, tenant, collection string) (*Edit, error) {
	version, err := s.Store.IncrementVersionTx(tx, tenant, collection)
	return &Edit{s, tx, tenant, collection, version}, err
}

// Insert adds passages, and has those embedded that bring no vector of the
// current model.
func (e *Edit) Insert(passages ...Passage) error {
	if err := e.service.Store.CreateTx(e.tx, e.tenant, e.collection, e.version, passages); err != nil {
		return err
	}
	return e.embed()
}

// Replace changes a passage; anew says that its text is another one.
func (e *Edit) Replace(p Passage, anew bool) error {
	if err := e.service.Store.UpdateTx(e.tx, e.tenant, e.collection, e.version, p, anew); err != nil || !anew {
		return err
	}
	return e.embed()
}

// Delete removes passages.
func (e *Edit) Delete(ids ...string) error {
	return e.service.Store.DeleteTx(e.tx, e.tenant, e.collection, e.version, ids)
}

// DeleteSource removes the passages of a source.
func (e *Edit) DeleteSource(source string) error {
	return e.service.Store.DeleteSourceTx(e.tx, e.tenant, e.collection, e.version, source)
}

// Embed has everything embedded that has no vector of the current model, what
// the model did not take before included.
func (e *Edit) Embed() error {
	if err := e.service.Store.ResetFailedTx(e.tx, e.tenant, e.collection, e.version); err != nil {
		return err
	}
	return e.embed()
}

// embed enqueues the work. Work that is going on looks for what came meanwhile
// before it ends, with the collection locked, so that nothing is left out.
func (e *Edit) embed() error { return e.service.enqueue(e.tx, e.tenant, e.collection) }

func (s *Service) enqueue(tx txn.Tx, tenant, collection string) error {
	if s.Embedder == nil {
		return nil
	}
	return s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: collection, TenantID: tenant, Due: s.Clock.Now()})
}

// Drop removes a collection.
func (s *Service) Drop(tx txn.Tx, tenant, collection string) error {
	if err := s.Store.DeleteCollectionTx(tx, tenant, collection); err != nil {
		return err
	}
	tx.AfterCommit(func() { s.cache.Drop(key{tenant, collection}) })
	return s.Queue.DeleteTx(tx, WorkKind, collection)
}
