package retrieval

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentd/internal/base/text"
	"agentd/internal/base/txn"
	"agentd/internal/content/textindex"
)

// embedWait is how long a search waits for the vector of its query. Without a
// vector the search is by words alone.
const embedWait = 5 * time.Second

// Mode is how a result was found.
type Mode string

// The modes.
const (
	Keyword Mode = "keyword" // by words
	Both    Mode = "hybrid"  // by words and vectors
	Newest  Mode = "recency" // by time alone
)

// Found is the result of a search, best first. Mode is empty if the collection is.
type Found struct {
	Mode  Mode
	Hits  []textindex.Hit
	Total int // passages in the collection
}

// Search searches a collection as it is committed now. The vector of the query is
// computed here if it helps.
func (s *Service) Search(ctx context.Context, tenant, collection string, q textindex.Query) (Found, error) {
	x, err := s.index(ctx, tenant, collection)
	if err != nil {
		return Found{}, err
	}
	x.mu.RLock()
	vectors, total := x.index.Vectors(), x.index.Len()
	x.mu.RUnlock()
	if total == 0 {
		return Found{}, nil
	}
	q.Text = Cut(q.Text)
	q.Now = s.Clock.Now()
	found := Found{Mode: Keyword, Total: total}
	if strings.TrimSpace(q.Text) == "" && q.Strategy == textindex.Recency {
		found.Mode = Newest
	} else if vectors > 0 {
		if q.Vector = s.embedQuery(ctx, q.Text); q.Vector != nil {
			found.Mode = Both
		}
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	found.Hits = x.index.Search(q)
	return found, nil
}

// Nearest returns the passage whose vector is the most similar, and their cosine.
func (s *Service) Nearest(ctx context.Context, tenant, collection string, vector []float32) (id string, cosine float64, err error) {
	x, err := s.index(ctx, tenant, collection)
	if err != nil {
		return "", 0, err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	id, cosine = x.index.Nearest(vector)
	return id, cosine, nil
}

func (s *Service) embedQuery(ctx context.Context, text string) []float32 {
	if s.Embedder == nil || strings.TrimSpace(text) == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, embedWait)
	defer cancel()
	made, err := s.Embedder.Embed(ctx, []string{text})
	if err != nil {
		s.Log.Warn("a query could not be embedded; it is answered by words alone", "error", err)
		return nil
	}
	return made.Vectors[0]
}

// Cut returns the part of a text that is embedded and searched for.
func Cut(s string) string { return text.Prefix(s, maxEmbedded) }

// indexed is a collection's index on this node. mu guards the index; loading
// is held while it follows the database.
type indexed struct {
	loading sync.Mutex
	mu      sync.RWMutex
	index   *textindex.Index
	version atomic.Int64
	bytes   atomic.Int64
}

// index returns the index of a collection, with everything that was committed
// before the call.
func (s *Service) index(ctx context.Context, tenant, collection string) (*indexed, error) {
	state, err := s.Store.GetState(ctx, tenant, collection)
	if err != nil {
		return nil, err
	}
	k := key{tenant, collection}
	x, ok := s.cache.Get(k)
	if !ok {
		x = s.cache.First(k, &indexed{index: textindex.New()})
	}
	if x.version.Load() == state.Version {
		return x, nil
	}
	x.loading.Lock()
	defer x.loading.Unlock()
	known := x.version.Load()
	if known >= state.Version && state.Version != 0 {
		return x, nil // loaded concurrently
	}
	stale, err := s.follow(ctx, k, x, known, state)
	if err != nil {
		return nil, err
	}
	s.cache.Set(k, x) // its weight has changed
	if stale {
		err = s.Writer.Write(ctx, func(tx txn.Tx) error { return s.enqueue(tx, tenant, collection) })
		if err != nil {
			s.Log.Warn("passages that the embedding model has not seen are not embedded yet", "collection", collection, "error", err)
		}
	}
	return x, nil
}

// follow updates an index from one version to a later one. stale reports that the
// current model has not processed some passages: vectors of another model are skipped.
func (s *Service) follow(ctx context.Context, k key, x *indexed, known int64, state State) (stale bool, err error) {
	if state.Version == 0 { // the collection was deleted
		x.mu.Lock()
		defer x.mu.Unlock()
		x.index = textindex.New()
		x.note(0)
		return false, nil
	}
	var changed []textindex.Doc
	index, put := x.index, func(d textindex.Doc) { changed = append(changed, d) }
	if known == 0 { // nothing searches the new index yet: no text need be kept for it
		index = textindex.New()
		put = index.Put
	}
	model := s.Model()
	err = s.Store.VisitChanged(ctx, k.tenant, k.collection, known, func(p Passage) {
		if p.Model != model {
			p.Vector = nil
			// Passages that were added later have work of their own.
			stale = stale || model != "" && known == 0
		}
		put(textindex.Doc{ID: p.ID, Kind: p.Kind, Text: p.searched(), Vector: p.Vector, Boost: p.Boost, At: p.At})
	})
	if err != nil {
		return false, err
	}
	var there map[string]bool
	if known > 0 && state.Removed > known {
		ids, err := s.Store.ListIDs(ctx, k.tenant, k.collection)
		if err != nil {
			return false, err
		}
		there = make(map[string]bool, len(ids))
		for _, id := range ids {
			there[id] = true
		}
	}
	if known == 0 {
		index.Shrink()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.index = index
	for _, d := range changed {
		index.Put(d)
	}
	if there != nil {
		x.index.Retain(there)
	}
	x.note(state.Version)
	return stale, nil
}

func (x *indexed) note(version int64) {
	x.bytes.Store(int64(x.index.Bytes()))
	x.version.Store(version)
}
