package textindex

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/tokenize"
)

// Strategy is how texts are ranked.
type Strategy string

// The strategies. Which texts match is the same for all of them.
const (
	Hybrid    Strategy = "hybrid"    // relevance, times decay, plus a tenth of the boost
	Relevance Strategy = "relevance" // how well words and vectors match
	Recency   Strategy = "recency"   // newest first; without text and vector everything matches
)

// Query is a search.
type Query struct {
	Text     string
	Vector   []float32 // of Text; nil: words only
	Kinds    []string  // nil: any kind
	Strategy Strategy
	Limit    int
	Now      time.Time
	HalfLife time.Duration // age at which a text counts half; 0: no decay
}

// Hit is a result. Scores are comparable within one answer only.
type Hit struct {
	ID    string
	Score float64
	At    time.Time
}

const (
	k1, b      = 1.2, 0.75 // BM25, as usual
	fusion     = 60.0      // reciprocal rank fusion, as usual
	boostShare = 0.1
	leastNear  = 0.2 // cosines below it are noise
	deepest    = 200 // ranks of one list that are fused, at least
	maxTerms   = 256 // of a query
)

// Search returns the best texts, best first. Equal scores are ordered by time,
// newest first, then by id.
func (x *Index) Search(q Query) []Hit {
	if strings.TrimSpace(q.Text) == "" && len(q.Vector) == 0 {
		if q.Strategy != Recency {
			return nil
		}
		return x.newest(q)
	}
	depth := max(deepest, 4*q.Limit)
	if q.Strategy == Recency {
		depth = len(x.slots)
	}
	lists := [][]ranked{x.byWords(q, depth)}
	if vector := unit(q.Vector); vector != nil && x.vectors > 0 {
		lists = append(lists, x.byVector(q, vector, depth))
	}
	hits := x.fuse(q, lists)
	slices.SortFunc(hits, func(a, b Hit) int {
		if q.Strategy == Recency {
			return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID))
		}
		return cmp.Or(cmp.Compare(b.Score, a.Score), b.At.Compare(a.At), cmp.Compare(a.ID, b.ID))
	})
	return hits[:min(len(hits), q.Limit)]
}

// Nearest returns the text whose vector is the most similar, and their cosine; ""
// if no text has a vector of that length.
func (x *Index) Nearest(vector []float32) (id string, cosine float64) {
	list := x.byVector(Query{}, unit(vector), 1)
	if len(list) == 0 {
		return "", 0
	}
	return x.slots[list[0].slot].id, list[0].score
}

// fuse merges lists by reciprocal ranks. A text that leads all lists gets 1.
func (x *Index) fuse(q Query, lists [][]ranked) []Hit {
	scores := map[int32]float64{}
	for _, list := range lists {
		for rank, r := range list {
			scores[r.slot] += (fusion + 1) / (fusion + 1 + float64(rank)) / float64(len(lists))
		}
	}
	hits := make([]Hit, 0, len(scores))
	for at, score := range scores {
		s := &x.slots[at]
		if q.Strategy == Hybrid || q.Strategy == "" {
			score = score*Decay(q.Now.Sub(s.at), q.HalfLife) + boostShare*min(max(s.boost, 0), 1)
		}
		hits = append(hits, Hit{s.id, score, s.at})
	}
	return hits
}

// Decay returns the remaining weight at an age.
func Decay(age, halfLife time.Duration) float64 {
	if halfLife <= 0 || age <= 0 {
		return 1
	}
	return math.Exp2(-float64(age) / float64(halfLife))
}

// ranked is a text in one list.
type ranked struct {
	slot  int32
	score float64
}

// better orders a list. One order for all lists makes ranks deterministic.
func (x *Index) better(a, b ranked) int {
	s, t := &x.slots[a.slot], &x.slots[b.slot]
	return cmp.Or(cmp.Compare(b.score, a.score), t.at.Compare(s.at), cmp.Compare(s.id, t.id))
}

// wanted reports whether a slot is live and of a requested kind.
func (q *Query) wanted(s *slot) bool {
	return s.id != "" && (q.Kinds == nil || slices.Contains(q.Kinds, s.kind))
}

func (x *Index) byWords(q Query, depth int) []ranked {
	var terms []int32
	tokenize.Words(q.Text, func(token []byte) {
		if term, known := x.terms[string(token)]; known && len(terms) < maxTerms && !slices.Contains(terms, term) {
			terms = append(terms, term)
		}
	})
	// Sums of floats depend on their order: use that of the words, not of their
	// internal ids.
	scores := make([]float64, len(x.slots))
	mean := float64(x.words) / float64(max(len(x.byID), 1))
	for _, term := range terms {
		list := x.postings[term]
		found := 0
		for _, p := range list {
			if x.slots[p.slot].id != "" {
				found++
			}
		}
		idf := math.Log(1 + (float64(len(x.byID)-found)+0.5)/(float64(found)+0.5))
		for _, p := range list {
			s := &x.slots[p.slot]
			n := float64(p.count)
			scores[p.slot] += idf * n * (k1 + 1) / (n + k1*(1-b+b*float64(s.length)/mean))
		}
	}
	return x.best(q, scores, 0, depth)
}

func (x *Index) byVector(q Query, vector []float32, depth int) []ranked {
	scores := make([]float64, len(x.slots))
	for i := range x.slots {
		if v := x.slots[i].vector; v != nil && len(v) == len(vector) {
			scores[i] = float64(dot(v, vector))
		}
	}
	return x.best(q, scores, leastNear, depth)
}

// best returns the depth best texts that score more than least, best first. It
// sorts only candidates that beat the worst of them.
func (x *Index) best(q Query, scores []float64, least float64, depth int) []ranked {
	var list []ranked
	trim := func() {
		slices.SortFunc(list, x.better)
		list = list[:min(len(list), depth)]
	}
	for i, score := range scores {
		if score <= least || !q.wanted(&x.slots[i]) {
			continue
		}
		list = append(list, ranked{int32(i), score})
		if len(list) >= 2*depth+64 {
			trim()
			// Equal scores may still rank before the worst by their time.
			least = math.Nextafter(list[depth-1].score, math.Inf(-1))
		}
	}
	trim()
	return list
}

func (x *Index) newest(q Query) []Hit {
	list := x.best(q, slices.Repeat([]float64{1}, len(x.slots)), 0, max(q.Limit, 1))
	hits := make([]Hit, len(list))
	for i, r := range list {
		hits[i] = Hit{ID: x.slots[r.slot].id, At: x.slots[r.slot].at}
	}
	return hits
}
