// Package search finds agents, conversations and runs by their words
// (behaviours.md section 33).
//
// What can be found is a document: words of a thing, without the thing itself,
// which is read when it is found. Documents are made after the fact. Agents and
// sessions have theirs made by work that their changes leave; runs are found in
// the order of their ends, by one item of work for all of them, so that the end
// of a run has nothing more to write. See docs/search.md and decision 0025.
package search

import (
	"context"
	"slices"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/content/textindex"
	"agentd/internal/execution/run"
)

// Kind is a kind of things that can be found.
type Kind string

// The kinds. They are stored.
const (
	Agent   Kind = "agent"
	Session Kind = "session"
	Run     Kind = "run"
)

// Limits of what is kept and asked.
const (
	maxText     = 32 << 10 // bytes of a document
	maxMessage  = maxText / 2
	maxWords    = 12 // of a query
	leastQuery  = 2  // characters
	searchTime  = 2 * time.Second
	maxTitle    = 120 // characters
	maxSubtitle = 160 // characters
)

// Doc is a thing as it is found.
type Doc struct {
	ID      string
	Parent  string // the session of a run; else ""
	Version int64  // an earlier one never replaces a later one
	At      time.Time
	Title   []string // words by which it is found before others; also part of Words
	Words   []string // each once
}

// Hit is a thing that was found.
type Hit struct {
	ID     string
	Parent string
	At     time.Time
}

// Mark is a place in the order of the ends of runs, or of things.
type Mark struct {
	At       time.Time
	TenantID string
	ID       string
}

// Place is a run that has ended, and whether it has a document already.
type Place struct {
	Mark
	Known bool
}

// Want is what is looked for: documents of a kind that have all the words, of
// which the last may be the beginning of one.
type Want struct {
	Kind   Kind
	Titles bool // the words are to be in the title
	Words  []string
	Limit  int
}

// Store is the port to what is indexed. Every call that is about one tenant's
// documents takes the tenant.
type Store interface {
	// PutTx adds documents, and replaces those with their ids unless they are of
	// a later version.
	PutTx(tx txn.Tx, tenant string, kind Kind, docs []Doc) error
	DeleteTx(tx txn.Tx, tenant string, kind Kind, id string) error
	// Search gives the documents that were put last first. Where ctx ends it gives
	// what it has found by then.
	Search(ctx context.Context, tenant string, w Want) ([]Hit, error)

	// ListEnded gives up to limit runs that ended after a mark and up to a moment
	// (zero: ever), of all tenants, in the order of their ends.
	ListEnded(ctx context.Context, after Mark, until time.Time, limit int) ([]Place, error)
	// ListEndedTx is Ended as the transaction sees it, without end.
	ListEndedTx(tx txn.Tx, after Mark, limit int) ([]Place, error)
	// ListThings gives up to limit agents or sessions of all tenants after a mark,
	// by tenant and id. Their marks have no time.
	ListThings(ctx context.Context, kind Kind, after Mark, limit int) ([]Mark, error)

	// GetMark is how far something was looked through; the zero Mark where it was
	// not.
	GetMark(ctx context.Context, name string) (Mark, error)
	PutMarkTx(tx txn.Tx, name string, m Mark) error
}

// Runs is the port to runs; run.Store.
type Runs interface {
	Get(ctx context.Context, tenant, id string) (*run.Record, error)
	List(ctx context.Context, tenant string, f run.Filter) ([]run.Run, error)
}

// words gives the words of texts, each once.
func words(texts ...string) []string {
	var list []string
	seen := map[string]bool{}
	for _, text := range texts {
		textindex.Tokens(text, func(token []byte) {
			if word := string(token); !seen[word] {
				seen[word] = true
				list = append(list, word)
			}
		})
	}
	return list
}

// asked gives the words of a query. The last word stays the last one, though
// it was there before: it may be the beginning of another.
func asked(q string) []string {
	var list []string
	textindex.Tokens(q, func(token []byte) {
		word := string(token)
		list = append(slices.DeleteFunc(list, func(w string) bool { return w == word }), word)
	})
	return list[:min(len(list), maxWords)]
}
