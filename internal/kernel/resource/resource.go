// Package resource is the kernel of everything that is created, read, listed,
// changed and deleted over HTTP: a kind is a struct, and one [Kind] value that
// states its fields' rules, its access, its indexes and its moves. Slices call
// a kind through [Store], the HTTP edge through [Routes]; resourcetest checks
// both for any kind and any backend.
//
// # Order of a write
//
// A write is one transaction: the resource is read and locked; If-Match is
// compared; a move checks the state; the change is made; fields are validated;
// Kind.Before (or Kind.CheckDelete) may refuse or adjust; the document is
// stored if its version is still the one that was read; Kind.After may write
// more; the webhook event of Kind.Events is emitted; the audit log records the
// write; the [Change] goes to the outbox. If any of these fails, nothing is
// stored. A transaction may run more than once
// (package txn), so a hook sets every value again each time and has no effect
// outside of the transaction. A change by a request's body, which may be large,
// is made and validated before the transaction, and again if the resource
// changed in the meantime; addresses that it names are looked up before the
// transaction too.
//
// # Ownership
//
// The tenant is an argument of every call; another tenant's resource is not
// found. A *T that a Store returned belongs to the caller.
package resource

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Meta is what every resource has beside its own fields. A type embeds it with
// the tag json:"-": the wire form adds the id under [Kind.IDField], tenant_id,
// created_at and updated_at.
type Meta struct {
	ID        string
	TenantID  string
	Version   int64 // 1 at first, one more with every write; the ETag
	CreatedAt time.Time
	UpdatedAt time.Time
}

func (m *Meta) meta() *Meta { return m }

// carrier is a *T whose T embeds Meta.
type carrier interface{ meta() *Meta }

func metaOf[T any](t *T) *Meta { return any(t).(carrier).meta() }

// Slots is the number of indexes that a kind may have beside its unique one.
const Slots = 4

// Doc is a resource as a [Backend] sees it.
type Doc struct {
	Kind, Tenant, ID string
	Version          int64
	CreatedAt        time.Time
	UpdatedAt        time.Time
	Body             jsontext.Value // a JSON object: the type's own fields

	// Index and Unique hold the values that the document is found by; "" is in
	// no index.
	// Reads leave them empty.
	Index  [Slots]string
	Unique string

	// Words are the words by whose beginnings the document is found, at most
	// MaxWords, each of at most MaxWord characters. Nil on a write keeps those that
	// are stored; reads leave them nil.
	Words []string
}

// Bounds of Doc.Words and Query.Words.
const (
	MaxWords = 16
	MaxWord  = 16 // characters; of a longer word its beginning counts
)

// Query selects a page of one tenant's documents of one kind, in the order of
// their ids: newest first, or oldest first with Asc.
type Query struct {
	Kind, Tenant string
	Filter       [Slots]string // equal values of indexes; "": any
	Unique       string        // equal value of the unique index; "": any
	Words        []string      // beginnings of words, all of which the document has
	Asc          bool
	After        string // strictly behind this id in that order; "": from the start
	Limit        int    // at most this many, and at least 1
	Page         bool   // stops at the first document beyond [page.Weight], which is included
}

// Errors of a [Backend] beside faults of the database.
var (
	ErrAbsent = errors.New("resource: there is no such document")
	ErrStale  = errors.New("resource: the document has another version")
	ErrTaken  = errors.New("resource: the unique value belongs to another document")
)
