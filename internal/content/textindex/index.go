// Package textindex finds texts by their words (BM25), by the similarity of
// their vectors, or by both. An [Index] is in memory. Its ranks depend only on its
// content and the query, so that two nodes with the same texts answer alike.
package textindex

import "time"

// Doc is an indexed text. The text itself is not stored.
type Doc struct {
	ID     string
	Kind   string // queries may be restricted to some kinds
	Text   string
	Vector []float32 // nil: found by its words only
	Boost  float64   // added to the score of hybrid queries; 0 to 1
	At     time.Time // for decay and recency
}

// Index holds texts. Searching is safe for concurrent use while the index is not
// changed.
type Index struct {
	terms    map[string]int32
	names    []string // of terms
	postings [][]posting
	slots    []slot
	byID     map[string]int32
	words    int // of all live texts
	vectors  int
	bytes    int
	exact    int // exactNumbers
}

// posting says how often a text has a term: its slot in the upper 24 bits, which is more
// than a collection may have, and the count in the lower 8. An index is mostly postings.
type posting uint32

const mostCounted = 255 // more does not change a score

func newPosting(slot, count int32) posting {
	return posting(slot)<<8 | posting(min(count, mostCounted))
}

func (p posting) slot() int32  { return int32(p >> 8) }
func (p posting) count() int32 { return int32(p & mostCounted) }

type slot struct {
	id       string // "": removed
	kind     string
	boost    float64
	at       time.Time
	length   int32 // in words
	language int8  // see number
	terms    int32 // how many different ones it has
	vector   vector
}

// New returns an empty index.
func New() *Index {
	return &Index{terms: map[string]int32{}, byID: map[string]int32{}, exact: exactNumbers}
}

// Len returns the number of texts.
func (x *Index) Len() int { return len(x.byID) }

// Vectors returns the number of texts with a vector.
func (x *Index) Vectors() int { return x.vectors }

// Bytes estimates the memory that the index takes.
func (x *Index) Bytes() int { return x.bytes }

// Put adds a text, or replaces the one with its id.
func (x *Index) Put(d Doc) {
	x.Remove(d.ID)
	at := int32(len(x.slots))
	counts := map[int32]int32{}
	s := slot{id: d.ID, kind: d.Kind, boost: d.Boost, at: d.At, vector: newVector(d.Vector)}
	var terms []int32 // without duplicates
	count := func(token string) {
		term, known := x.terms[token]
		if !known {
			term = int32(len(x.postings))
			x.terms[token] = term
			x.names = append(x.names, token)
			x.postings = append(x.postings, nil)
			x.bytes += 96 + len(token)
		}
		if counts[term]++; counts[term] == 1 {
			terms = append(terms, term)
		}
	}
	tokens := tokensOf(d.Text)
	in, sure := detect(tokens)
	s.language = number(in, sure)
	var stems stemmer
	for _, token := range tokens {
		count(token)
		if in == nil || !in.stop[token] {
			stems.stems(in, token, count)
		}
		s.length++
	}
	s.terms = int32(len(terms))
	for _, term := range terms {
		x.postings[term] = append(x.postings[term], newPosting(at, counts[term]))
	}
	x.slots = append(x.slots, s)
	x.byID[s.id] = at
	x.words += int(s.length)
	x.bytes += s.bytes()
	if s.vector.values != nil {
		x.vectors++
	}
}

func (s *slot) bytes() int { return 270 + 6*int(s.terms) + s.vector.bytes() }

// Remove removes a text, if it exists.
func (x *Index) Remove(id string) {
	at, ok := x.byID[id]
	if !ok {
		return
	}
	s := &x.slots[at]
	delete(x.byID, id)
	x.words -= int(s.length)
	x.bytes -= s.bytes()
	if s.vector.values != nil {
		x.vectors--
	}
	*s = slot{} // the postings stay until the index is compacted
	if len(x.slots) > 64+2*len(x.byID) {
		x.compact()
	}
}

// Retain removes all texts for which keep is false.
func (x *Index) Retain(keep map[string]bool) {
	var gone []string
	for id := range x.byID {
		if !keep[id] {
			gone = append(gone, id)
		}
	}
	for _, id := range gone {
		x.Remove(id)
	}
}

// compact removes the slots of removed texts.
func (x *Index) compact() {
	moved := make([]int32, len(x.slots))
	live := make([]slot, 0, len(x.byID))
	for i := range x.slots {
		moved[i] = -1
		if s := x.slots[i]; s.id != "" {
			moved[i] = int32(len(live))
			x.byID[s.id] = moved[i]
			live = append(live, s)
		}
	}
	x.slots = live
	for term, list := range x.postings {
		kept := list[:0]
		for _, p := range list {
			if to := moved[p.slot()]; to >= 0 {
				kept = append(kept, newPosting(to, p.count()))
			}
		}
		x.postings[term] = kept
	}
}
