// Package search finds agents, sessions and runs by their words.
//
// Each of them has a document: its words, without the object itself, which is
// read when it is found. Documents are built afterwards: those of agents and
// sessions by work that their changes schedule, those of runs in the order of
// their ends, by one work item for all of them, so that the end of a run writes
// nothing more. See docs/search.md and decision 0025.
package search

import (
	"context"
	"slices"
	"time"

	"agentd/internal/base/page"
	"agentd/internal/base/tokenize"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// Kind is a kind of document.
type Kind string

// The kinds. They are stored.
const (
	Agent   Kind = "agent"
	Session Kind = "session"
	Run     Kind = "run"
)

// Limits of documents and queries.
const (
	maxText     = 32 << 10 // bytes of a document
	maxMessage  = maxText / 2
	maxWords    = 12 // of a query
	minQuery    = 2  // characters
	searchTime  = 2 * time.Second
	maxTitle    = 120 // characters
	maxSubtitle = 160 // characters
)

// Doc is the document of an agent, a session or a run.
type Doc struct {
	ID      string
	Parent  string // the session of a run; else ""
	Version int64  // an earlier one never replaces a later one
	At      time.Time
	Title   []string // words of the name, ranked first; also part of Words
	Words   []string // without duplicates
}

// Hit is a document that was found.
type Hit struct {
	ID     string
	Parent string
	At     time.Time
}

// Mark is a position in the order of the ends of runs, or of agents or sessions.
type Mark struct {
	At       time.Time
	TenantID string
	ID       string
}

// Place is a run that has ended, and whether it has a document.
type Place struct {
	Mark
	Known bool
}

// Want is a query: documents of a kind that contain all words, the last of which
// may be a prefix.
type Want struct {
	Kind   Kind
	Titles bool // only documents with the words in the title
	Words  []string
	Limit  int
}

// Store is the port to documents. Every call about a tenant's documents takes the
// tenant.
type Store interface {
	// PutTx stores documents and replaces those with the same ids, unless these
	// have a later version.
	PutTx(tx txn.Tx, tenant string, kind Kind, docs []Doc) error
	DeleteTx(tx txn.Tx, tenant string, kind Kind, id string) error
	// Search returns the documents that were stored last first. If ctx ends it
	// returns what it has found by then.
	Search(ctx context.Context, tenant string, w Want) ([]Hit, error)

	// ListEnded returns up to limit runs of all tenants that ended after a mark and
	// up to a moment (zero: any), in the order of their ends.
	ListEnded(ctx context.Context, after Mark, until time.Time, limit int) ([]Place, error)
	// ListEndedTx is ListEnded in a transaction, without an upper bound.
	ListEndedTx(tx txn.Tx, after Mark, limit int) ([]Place, error)
	// ListThings returns up to limit agents or sessions of all tenants after a mark,
	// by tenant and id. Their marks have no time.
	ListThings(ctx context.Context, kind Kind, after Mark, limit int) ([]Mark, error)

	// GetMark returns how far a kind is indexed; the zero Mark if it is not.
	GetMark(ctx context.Context, name string) (Mark, error)
	PutMarkTx(tx txn.Tx, name string, m Mark) error
}

// Runs is the port to runs; run.Store implements it.
type Runs interface {
	Get(ctx context.Context, tenant, id string) (*run.Record, error)
	List(ctx context.Context, tenant string, f run.Filter, w page.Window) ([]run.Run, error)
}

// Texts is the port to the texts of runs; runsql.Texts implements it.
type Texts interface {
	// ListTexts returns what is searched of runs, those that there are, in any order:
	// their ids, sessions, ends, inputs and outputs.
	ListTexts(ctx context.Context, tenant string, ids []string) ([]run.Run, error)
}

// words returns the words of texts without duplicates.
func words(texts ...string) []string {
	var list []string
	seen := map[string]bool{}
	for _, text := range texts {
		tokenize.Words(text, func(token []byte) {
			if word := string(token); !seen[word] {
				seen[word] = true
				list = append(list, word)
			}
		})
	}
	return list
}

// queryWords returns the words of a query. A last word that occurs twice stays last,
// because it may be a prefix.
func queryWords(q string) []string {
	var list []string
	tokenize.Words(q, func(token []byte) {
		word := string(token)
		list = append(slices.DeleteFunc(list, func(w string) bool { return w == word }), word)
	})
	return list[:min(len(list), maxWords)]
}
