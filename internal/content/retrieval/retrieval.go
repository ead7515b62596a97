// Package retrieval implements searchable collections of passages: the entries of
// an agent's memory, and the chunks of a knowledge base.
//
// A passage is found by its words as soon as it is committed. Its vector is
// computed after the commit, as leased work, so that no write waits for an
// embedding model; without an embedding model passages have no vectors. Searches
// run in memory, in an index per collection that follows the database by a
// version counter: every change of a collection increments it, and every search
// reads it first, so that the next search finds what another node committed.
package retrieval

import (
	"cmp"
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
	SourceID string // the document that it is part of, or ""
	Position int    // in its source, starting at 0
	Kind     string // searches may be restricted to some kinds
	Text     string
	Words    string // by which it is found too, and which are not embedded
	Start    int    // characters of its source before it; -1: not known
	Page     int    // of its source, from 1; 0: none
	Boost    float64
	At       time.Time // the time that decay counts from

	Vector  []float32 // nil: not embedded (yet)
	Model   string    // of the vector, or of the last attempt to compute it; "": none
	Version int64     // of the collection at the passage's last change
}

// searched returns the text by whose words the passage is found.
func (p *Passage) searched() string {
	if p.Words == "" {
		return p.Text
	}
	return p.Text + "\n" + p.Words
}

// Weight decides which passages of a full collection are removed.
type Weight struct {
	ID    string
	Boost float64
	At    time.Time
}

// Vector is the embedding of a passage.
type Vector struct {
	ID      string
	Version int64     // of the passage that was read; if it has changed, the vector is discarded
	Values  []float32 // nil: the model does not accept the text
}

// State is the state of a collection. The zero State is a collection that was
// never written.
type State struct {
	Version int64
	Removed int64 // the version of the last removal
}

// Count is the number of passages of a source, and of those that the current
// embedding model has processed.
type Count struct {
	Total, Embedded, Pending int
}

// Store is the port to the tables. Every call takes the tenant: a collection of
// another tenant is empty.
type Store interface {
	// IncrementVersionTx increments the version of a collection and locks the
	// collection until the transaction ends.
	IncrementVersionTx(tx txn.Tx, tenant, collection string) (version int64, err error)
	CreateTx(tx txn.Tx, tenant, collection string, version int64, passages []Passage) error
	// UpdateTx stores kind, text, boost and time of a passage, and clears its
	// vector if the text has changed.
	UpdateTx(tx txn.Tx, tenant, collection string, version int64, p Passage, changed bool) error
	DeleteTx(tx txn.Tx, tenant, collection string, version int64, ids []string) error
	DeleteSourceTx(tx txn.Tx, tenant, collection string, version int64, source string) error
	DeleteCollectionTx(tx txn.Tx, tenant, collection string) error
	UpdateVectorsTx(tx txn.Tx, tenant, collection string, version int64, model string, vectors []Vector) error
	// ResetFailedTx clears the marks of texts that a model did not accept.
	ResetFailedTx(tx txn.Tx, tenant, collection string, version int64) error
	ListWeightsTx(tx txn.Tx, tenant, collection string) ([]Weight, error)
	// HasPendingTx reports whether some passage is not processed by the model.
	HasPendingTx(tx txn.Tx, tenant, collection, model string) (bool, error)

	GetState(ctx context.Context, tenant, collection string) (State, error)
	// VisitChanged visits the passages with a later version, in no order.
	VisitChanged(ctx context.Context, tenant, collection string, after int64, each func(Passage)) error
	ListIDs(ctx context.Context, tenant, collection string) ([]string, error)
	// ListByID returns passages by their ids, without vectors; absent ones are skipped.
	ListByID(ctx context.Context, tenant, collection string, ids []string) (map[string]Passage, error)
	// ListAround returns the passages of a source at some positions, in their order and
	// without vectors.
	ListAround(ctx context.Context, tenant, collection, source string, first, last int) ([]Passage, error)
	// ListPending returns passages that the model has not processed, without vectors.
	ListPending(ctx context.Context, tenant, collection, model string, limit int) ([]Passage, error)
	// CountBySource returns the numbers of passages by source.
	CountBySource(ctx context.Context, tenant, collection, model string) (map[string]Count, error)
}

// WorkKind is the kind of the embedding work; the key is the collection.
const WorkKind = "embed"

// maxEmbedded is how many characters of a text are embedded.
const maxEmbedded = 8000

// Config are the dependencies of a Service.
type Config struct {
	Store    Store
	Writer   txn.Writer
	Queue    work.Queue
	Embedder model.Embedder // nil: passages are found by their words only
	Clock    clock.Clock
	Log      *slog.Logger
	Lease    time.Duration // of the work
	// Memory bounds the bytes of all indexes; 0: 256 MiB. A single larger collection
	// keeps its index while nothing else is searched.
	Memory int
}

// Service searches collections and embeds their passages. It is safe for
// concurrent use.
type Service struct {
	Config
	cache *cache.Cache[key, *indexed]
}

type key struct{ tenant, collection string }

// New returns a service.
func New(c Config) *Service {
	const unit = 1 << 10 // so that the weight of any index fits 32 bits
	memory := uint64(max(cmp.Or(c.Memory, 256<<20)/unit, 1))
	return &Service{c, cache.New(cache.Options[key, *indexed]{
		Weight: memory,
		Weigh:  func(_ key, x *indexed) uint32 { return uint32(min(uint64(x.bytes.Load())/unit+1, memory)) },
	})}
}

// Model returns the name of the current embedding model, or "".
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

// Edit begins a change. It locks the collection until the transaction ends.
func (s *Service) Edit(tx txn.Tx, tenant, collection string) (*Edit, error) {
	version, err := s.Store.IncrementVersionTx(tx, tenant, collection)
	return &Edit{s, tx, tenant, collection, version}, err
}

// Insert adds passages, and schedules the embedding of those without a vector of
// the current model.
func (e *Edit) Insert(passages ...Passage) error {
	if err := e.service.Store.CreateTx(e.tx, e.tenant, e.collection, e.version, passages); err != nil {
		return err
	}
	return e.embed()
}

// Replace changes a passage; changed reports that its text is different.
func (e *Edit) Replace(p Passage, changed bool) error {
	if err := e.service.Store.UpdateTx(e.tx, e.tenant, e.collection, e.version, p, changed); err != nil || !changed {
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

// Embed schedules the embedding of everything without a vector of the current
// model, including texts that the model did not accept before.
func (e *Edit) Embed() error {
	if err := e.service.Store.ResetFailedTx(e.tx, e.tenant, e.collection, e.version); err != nil {
		return err
	}
	return e.embed()
}

// embed enqueues the work. Work in progress looks for new passages before it ends,
// with the collection locked, so that none is missed.
func (e *Edit) embed() error { return e.service.enqueue(e.tx, e.tenant, e.collection) }

func (s *Service) enqueue(tx txn.Tx, tenant, collection string) error {
	if s.Embedder == nil {
		return nil
	}
	return s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: collection, TenantID: tenant, Due: s.Clock.Now()})
}

// Drop deletes a collection.
func (s *Service) Drop(tx txn.Tx, tenant, collection string) error {
	if err := s.Store.DeleteCollectionTx(tx, tenant, collection); err != nil {
		return err
	}
	tx.AfterCommit(func() { s.cache.Drop(key{tenant, collection}) })
	return s.Queue.DeleteTx(tx, WorkKind, collection)
}
