// Package textindex finds texts by their words (BM25), by the similarity of
// their vectors, or by both. An [Index] is in memory. Its ranks depend only on its
// content and the query, so that two nodes with the same texts answer alike.
package textindex

import (
	"math"
	"time"
	"unsafe"
)

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
	terms   terms
	slots   []slot
	ids     table // of slots by id
	kinds   []string
	kindOf  map[string]int32 // in kinds
	live    int              // texts
	words   int              // of all live texts
	vectors int
	bytes   int // of what the slots refer to
	exact   int // exactNumbers
}

type slot struct {
	id       string  // "": removed
	vector   *vector // nil: none
	at       int64   // Unix time in nanoseconds; see instant
	boost    float32
	length   int32 // in words
	kind     int32 // in kinds
	language int8  // see number
}

// New returns an empty index.
func New() *Index {
	return &Index{terms: newTerms(), ids: newTable(), kindOf: map[string]int32{}, exact: exactNumbers}
}

// Len returns the number of texts.
func (x *Index) Len() int { return x.live }

// Vectors returns the number of texts with a vector.
func (x *Index) Vectors() int { return x.vectors }

// Bytes estimates the memory that the index takes.
func (x *Index) Bytes() int {
	return x.terms.bytes() + x.ids.bytes() + int(unsafe.Sizeof(slot{}))*cap(x.slots) + x.bytes
}

func (x *Index) id(at int32) string { return x.slots[at].id }

func (x *Index) kind(name string) int32 {
	kind, known := x.kindOf[name]
	if !known {
		kind = int32(len(x.kinds))
		x.kinds = append(x.kinds, name)
		x.kindOf[name] = kind
		x.bytes += 2*len(name) + 80
	}
	return kind
}

// Put adds a text, or replaces the one with its id.
func (x *Index) Put(d Doc) {
	x.Remove(d.ID)
	at := int32(len(x.slots))
	s := slot{id: d.ID, kind: x.kind(d.Kind), boost: float32(d.Boost), at: nanoseconds(d.At), vector: newVector(d.Vector)}
	counts := map[int32]int32{}
	var found []int32 // the terms of the text, without duplicates
	count := func(token string) {
		term := x.terms.add(token)
		if counts[term]++; counts[term] == 1 {
			found = append(found, term)
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
	for _, term := range found {
		x.terms.post(term, at, counts[term])
	}
	x.slots = append(x.slots, s)
	x.ids.add(s.id, at, x.id)
	x.live++
	x.words += int(s.length)
	x.bytes += s.bytes()
	if s.vector != nil {
		x.vectors++
	}
}

// bytes returns the memory of what a slot refers to.
func (s *slot) bytes() int { return (len(s.id)+15)&^15 + s.vector.bytes() } // memory comes in 16 bytes

// Remove removes a text, if it exists.
func (x *Index) Remove(id string) {
	at, known := x.ids.find(id, func(at int32) bool { return x.slots[at].id == id })
	if !known || id == "" {
		return
	}
	s := &x.slots[at]
	x.live--
	x.words -= int(s.length)
	x.bytes -= s.bytes()
	if s.vector != nil {
		x.vectors--
	}
	*s = slot{} // the postings stay until the index is compacted
	if len(x.slots) > 64+2*x.live {
		x.compact()
	}
}

// Retain removes all texts for which keep is false.
func (x *Index) Retain(keep map[string]bool) {
	var gone []string
	for i := range x.slots {
		if id := x.slots[i].id; id != "" && !keep[id] {
			gone = append(gone, id)
		}
	}
	for _, id := range gone {
		x.Remove(id)
	}
}

// Shrink frees the memory that is kept for more texts.
func (x *Index) Shrink() {
	x.slots = exactly(x.slots)
	x.ids.shrink(len(x.slots), x.id)
	x.terms.shrink()
}

// compact removes the slots of removed texts.
func (x *Index) compact() {
	moved := make([]int32, len(x.slots))
	live := make([]slot, 0, x.live)
	for i := range x.slots {
		moved[i] = -1
		if s := x.slots[i]; s.id != "" {
			moved[i] = int32(len(live))
			live = append(live, s)
		}
	}
	x.slots, x.ids = live, newTable()
	for at := range x.slots {
		x.ids.add(x.slots[at].id, int32(at), x.id)
	}
	old := x.terms
	x.terms = newTerms()
	for term := range int32(old.len()) {
		to := int32(-1)
		for slot, count := range old.postings(term) {
			if moved[slot] < 0 {
				continue
			}
			if to < 0 {
				to = x.terms.add(old.text(term))
			}
			x.terms.post(to, moved[slot], count)
		}
	}
}

// nanoseconds returns a time as slots have it, and instant the time. Earlier ones than
// 1678 and later ones than 2262 are the first and last that there are.
func nanoseconds(t time.Time) int64 {
	switch year := t.Year(); {
	case t.IsZero() || year < 1678:
		return math.MinInt64
	case year > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}

func instant(nanoseconds int64) time.Time {
	if nanoseconds == math.MinInt64 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds).UTC()
}
