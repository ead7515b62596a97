package textindex

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"unsafe"
)

// terms are the words of an index, numbered in the order in which they were added, each
// with the texts that have it: its postings.
//
// An index is mostly this, and most words are rare. So there is neither a string nor a
// slice for each of them, but a few large pieces of memory without pointers: a term takes
// its letters and some 30 bytes, a posting of a common word takes one or two.
type terms struct {
	letters []byte   // of all names, one after another
	ends    []uint32 // where the name of each term ends in letters
	table   []uint32 // hash table of terms plus one, at most three quarters full; 0: free
	seed    maphash.Seed
	lists   []list
	pool    []byte // chunks of lists
}

// list has the postings of a term: its latest one here, those before it in a chain of
// chunks. Most terms are in one text and have no chunk.
type list struct {
	head, tail  uint32 // where the first chunk begins, and where the next byte is written
	left        uint16 // bytes that fit in the last chunk
	level       uint8  // of the last chunk
	count       uint8  // how often the latest text has the term; 0: there is none
	slot, chunk int32  // the latest text, and the latest one in the chunks
}

const (
	mostCounted = 255 // how often a text has a term: more does not change a score
	nextBytes   = 4   // behind the bytes of a chunk: where the next one begins
	listBytes   = int(unsafe.Sizeof(list{}))
)

// chunkBytes are the sizes of the chunks of a list, each half larger than the one before.
// Further ones are as large as the last.
var chunkBytes = func() (all []uint16) {
	for size := 6; size < 1200; size += size / 2 {
		all = append(all, uint16(size))
	}
	return all
}()

func newTerms() terms {
	return terms{seed: maphash.MakeSeed(), table: make([]uint32, 16)}
}

// len returns how many terms there are, with those that no text has any more.
func (t *terms) len() int { return len(t.ends) }

// bytes returns the memory that the terms take.
func (t *terms) bytes() int {
	return cap(t.letters) + 4*cap(t.ends) + 4*len(t.table) + listBytes*cap(t.lists) + cap(t.pool)
}

// name returns the letters of a term. They must not be changed.
func (t *terms) name(term int32) []byte {
	begin := uint32(0)
	if term > 0 {
		begin = t.ends[term-1]
	}
	return t.letters[begin:t.ends[term]]
}

// place returns where a name stands in the table, or the free place where it would.
func (t *terms) place(name string) int {
	at := int(maphash.String(t.seed, name) & uint64(len(t.table)-1))
	for t.table[at] != 0 && string(t.name(int32(t.table[at]-1))) != name {
		at = (at + 1) & (len(t.table) - 1)
	}
	return at
}

// find returns a term by its name, and reports whether there is one.
func (t *terms) find(name string) (term int32, known bool) {
	term = int32(t.table[t.place(name)]) - 1
	return term, term >= 0
}

// add returns a term by its name, and adds it where there is none.
func (t *terms) add(name string) int32 {
	at := t.place(name)
	if t.table[at] == 0 {
		if 4*(t.len()+1) > 3*len(t.table) {
			t.widen()
			at = t.place(name)
		}
		t.letters = append(t.letters, name...)
		t.ends = append(t.ends, uint32(len(t.letters)))
		t.lists = append(t.lists, list{})
		t.table[at] = uint32(t.len())
	}
	return int32(t.table[at]) - 1
}

// widen doubles the table.
func (t *terms) widen() {
	t.table = make([]uint32, 2*len(t.table))
	for term := range int32(t.len()) {
		t.table[t.place(string(t.name(term)))] = uint32(term) + 1
	}
}

// shrink frees the memory that is kept for more terms.
func (t *terms) shrink() {
	t.letters, t.ends = exactly(t.letters), exactly(t.ends)
	t.lists, t.pool = exactly(t.lists), exactly(t.pool)
}

// exactly returns a copy without room for more.
func exactly[E any](s []E) []E {
	copied := make([]E, len(s))
	copy(copied, s)
	return copied
}

// post adds that a text has a term, and how often. A term's texts are added in the order
// of their slots, each once.
func (t *terms) post(term, slot, count int32) {
	l := &t.lists[term]
	if l.count > 0 {
		t.store(l)
	}
	l.slot, l.count = slot, uint8(min(count, mostCounted))
}

// store writes the latest posting of a list to its chunks: twice the distance to the slot
// before it, plus one where the count follows because it is not 1.
func (t *terms) store(l *list) {
	var b [binary.MaxVarintLen64 + 1]byte
	distance := uint64(l.slot-l.chunk) << 1
	if l.count > 1 {
		distance |= 1
	}
	n := binary.PutUvarint(b[:], distance)
	if l.count > 1 {
		b[n] = l.count
		n++
	}
	for _, c := range b[:n] {
		if l.left == 0 {
			t.extend(l)
		}
		t.pool[l.tail] = c
		l.tail++
		l.left--
	}
	l.chunk = l.slot
}

// extend adds a chunk to a list.
func (t *terms) extend(l *list) {
	if len(t.pool) == 0 {
		t.pool = append(t.pool, 0) // so that no chunk begins at 0
	}
	begin := uint32(len(t.pool))
	if l.head == 0 {
		l.head = begin
	} else {
		binary.LittleEndian.PutUint32(t.pool[l.tail:], begin)
		l.level = nextLevel(l.level)
	}
	l.tail, l.left = begin, chunkBytes[l.level]
	t.pool = append(t.pool, make([]byte, int(l.left)+nextBytes)...)
}

func nextLevel(level uint8) uint8 { return min(level+1, uint8(len(chunkBytes)-1)) }

// postings returns the slots of the texts that have a term, and how often each has it.
func (t *terms) postings(term int32) iter.Seq2[int32, int32] {
	return func(yield func(slot, count int32) bool) {
		l := &t.lists[term]
		r := reader{pool: t.pool, at: l.head}
		if l.head > 0 {
			r.left = chunkBytes[0]
		}
		for slot := int32(0); r.at != l.tail; {
			distance := r.uvarint()
			count := int32(1)
			if distance&1 > 0 {
				count = int32(r.byte())
			}
			slot += int32(distance >> 1)
			if !yield(slot, count) {
				return
			}
		}
		if l.count > 0 {
			yield(l.slot, int32(l.count))
		}
	}
}

// reader reads the chunks of a list.
type reader struct {
	pool  []byte
	at    uint32
	left  uint16
	level uint8
}

func (r *reader) byte() byte {
	if r.left == 0 {
		r.at = binary.LittleEndian.Uint32(r.pool[r.at:])
		r.level = nextLevel(r.level)
		r.left = chunkBytes[r.level]
	}
	c := r.pool[r.at]
	r.at++
	r.left--
	return c
}

func (r *reader) uvarint() (n uint32) {
	for shift := 0; ; shift += 7 {
		c := r.byte()
		n |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
}
