package textindex

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
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
	// MinScore is the least score, by words or by vector, of what is found, from 0 (all
	// that matches) to 1; nil: 0.2 by words and 0.3 by vector.
	MinScore *float64
	// Synonyms are groups of words, or of several words, that stand for each other, in
	// addition to those that are known of each language.
	Synonyms [][]string
}

// Hit is a result.
type Hit struct {
	ID string
	// Score is from 0 to 1: the share of the query that the text matches by its words, or
	// the cosine of the vectors, whichever is larger. Hybrid takes nine tenths of it, with
	// decay, and a tenth of the boost.
	Score float64
	At    time.Time

	order float64
}

const (
	k1, b      = 0.6, 0.5 // BM25
	fusion     = 60.0     // reciprocal rank fusion, as usual
	boostShare = 0.1
	leastWord  = 0.2 // scores below it are noise
	leastNear  = 0.3 // and cosines
	leastSize  = 50  // texts that an index is taken to have at least, for how rare a word is
	deepest    = 50  // ranks of one list that are fused, at least
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
	if q.Strategy == "" {
		q.Strategy = Hybrid
	}
	if like := newVector(q.Vector); like != nil && x.vectors > 0 {
		lists = append(lists, x.byVector(q, like, depth))
	}
	hits := x.fuse(q, lists)
	slices.SortFunc(hits, func(a, b Hit) int {
		if q.Strategy == Recency {
			return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID))
		}
		return cmp.Or(cmp.Compare(b.order, a.order), b.At.Compare(a.At), cmp.Compare(a.ID, b.ID))
	})
	return hits[:min(len(hits), q.Limit)]
}

// Nearest returns the text whose vector is the most similar, and their cosine; ""
// if no text has a vector of that length.
func (x *Index) Nearest(vector []float32) (id string, cosine float64) {
	like := newVector(vector)
	if like == nil {
		return "", 0
	}
	list := x.byVector(Query{MinScore: new(float64)}, like, 1)
	if len(list) == 0 {
		return "", 0
	}
	return x.slots[list[0].slot].id, list[0].score
}

// fuse merges lists by reciprocal ranks: a text that leads all of them is ordered by 1. One
// list is ordered by its scores.
func (x *Index) fuse(q Query, lists [][]ranked) []Hit {
	type fused struct{ order, score float64 }
	scores := map[int32]fused{}
	for _, list := range lists {
		for rank, r := range list {
			f := scores[r.slot]
			f.score = max(f.score, min(r.score, 1))
			if len(lists) == 1 {
				f.order = f.score
			} else {
				f.order += (fusion + 1) / (fusion + 1 + float64(rank)) / float64(len(lists))
			}
			scores[r.slot] = f
		}
	}
	hits := make([]Hit, 0, len(scores))
	for at, f := range scores {
		s := &x.slots[at]
		if q.Strategy == Hybrid {
			decay, boost := Decay(q.Now.Sub(instant(s.at)), q.HalfLife), boostShare*min(max(float64(s.boost), 0), 1)
			f.order = (1-boostShare)*f.order*decay + boost
			f.score = (1-boostShare)*f.score*decay + boost
		}
		hits = append(hits, Hit{s.id, f.score, instant(s.at), f.order})
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
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(t.at, s.at), cmp.Compare(s.id, t.id))
}

// wanted reports whether a slot is live and of a requested kind.
func (x *Index) wanted(q *Query, s *slot) bool {
	return s.id != "" && (q.Kinds == nil || slices.Contains(q.Kinds, x.kinds[s.kind]))
}

// least returns the score that texts must exceed where the query does not say another.
func (q *Query) least(usual float64) float64 {
	if q.MinScore != nil {
		usual = *q.MinScore
	}
	if usual <= 0 {
		return 0
	}
	return math.Nextafter(usual, 0)
}

// byWords scores texts by BM25, divided by what a text would score at most that has every
// word of the query, also those that no text has.
func (x *Index) byWords(q Query, depth int) []ranked {
	words, in := x.seek(q.Text, q.Synonyms)
	scores := make([]float64, len(x.slots))
	mean, most := float64(x.words)/float64(max(x.live, 1)), 0.0
	size := float64(max(x.live, leastSize))
	strengths := map[int32]float64{}
	for i := range words {
		x.strengths(&words[i], in, mean, strengths)
		n := float64(len(strengths))
		idf := words[i].weight * math.Log(1+(size-n+0.5)/(n+0.5))
		most += idf
		for at, strength := range strengths {
			scores[at] += idf * strength
		}
	}
	if most > 0 {
		for i := range scores {
			scores[i] /= most
		}
	}
	return x.best(q, scores, q.least(leastWord), depth)
}

func (x *Index) byVector(q Query, like *vector, depth int) []ranked {
	scores := make([]float64, len(x.slots))
	x.nearest(&q, like, depth, func(slot int32, cosine float64) { scores[slot] = cosine })
	return x.best(q, scores, q.least(leastNear), depth)
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
		if score <= least || !x.wanted(&q, &x.slots[i]) {
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
		hits[i] = Hit{ID: x.slots[r.slot].id, Score: 1, At: instant(x.slots[r.slot].at)}
	}
	return hits
}
