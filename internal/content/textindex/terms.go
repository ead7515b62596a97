package textindex

import (
	"encoding/binary"
	"iter"
	"unsafe"
)

// terms are the words of an index, numbered in the order in which they were added, each
// with the texts that have it: its postings.
//
// An index is mostly this, and most words are rare. So there is neither a string nor a
// slice for each of them, but a few large pieces of memory without pointers: a term takes
// its letters and some 26 bytes, a posting of a common word takes one or two.
type terms struct {
	letters []byte   // of all names, one after another
	ends    []uint32 // where the name of each term ends in letters
	table   table    // of terms by name
	lists   []list
	pool    []byte // chunks of lists
}

// list has the postings of a term in a chain of chunks. Most terms are in one text: they
// have its slot here, and no chunk.
type list struct {
	head, tail uint32 // where the first chunk begins, and where the next byte is written; 0: there is none
	slot       int32  // the latest text
	left       uint16 // bytes that fit in the last chunk
	next       uint8  // index in chunkBytes of the chunk after the last one; see packed
	count      uint8  // without a chunk: how often the text has the term; 0: there is no text
}

const (
	mostCounted = 255  // how often a text has a term: more does not change a score
	nextBytes   = 4    // behind the bytes of a chunk: where the next one begins
	packed      = 0x80 // in list.next: the first chunk begins with its size as a varint
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

func newTerms() terms { return terms{table: newTable()} }

// len returns how many terms there are, with those that no text has any more.
func (t *terms) len() int { return len(t.ends) }

// bytes returns the memory that the terms take.
func (t *terms) bytes() int {
	return cap(t.letters) + 4*cap(t.ends) + t.table.bytes() + listBytes*cap(t.lists) + cap(t.pool)
}

// name returns the letters of a term. They must not be changed.
func (t *terms) name(term int32) []byte {
	begin := uint32(0)
	if term > 0 {
		begin = t.ends[term-1]
	}
	return t.letters[begin:t.ends[term]]
}

func (t *terms) text(term int32) string { return string(t.name(term)) }

// find returns a term by its name, and reports whether there is one.
func (t *terms) find(name string) (term int32, known bool) {
	return t.table.find(name, func(term int32) bool { return string(t.name(term)) == name })
}

// add returns a term by its name, and adds it where there is none.
func (t *terms) add(name string) int32 {
	if term, known := t.find(name); known {
		return term
	}
	term := int32(t.len())
	t.letters = append(t.letters, name...)
	t.ends = append(t.ends, uint32(len(t.letters)))
	t.lists = append(t.lists, list{})
	t.table.add(name, term, t.text)
	return term
}

// shrink frees the memory that is kept for more terms and postings.
func (t *terms) shrink() {
	t.letters, t.ends, t.lists = exactly(t.letters), exactly(t.ends), exactly(t.lists)
	t.table.shrink(t.len(), t.text)
	old := *t
	t.pool = make([]byte, 1, max(1, len(old.pool)))
	var bytes []byte
	for i := range t.lists {
		l := &t.lists[i]
		if l.head == 0 {
			continue
		}
		bytes = bytes[:0]
		for r := old.read(l); r.at != l.tail; {
			bytes = append(bytes, r.byte())
		}
		l.head = uint32(len(t.pool))
		t.pool = append(binary.AppendUvarint(t.pool, uint64(len(bytes))), bytes...)
		l.tail, l.left, l.next = uint32(len(t.pool)), 0, packed
		t.pool = append(t.pool, make([]byte, nextBytes)...)
	}
	t.pool = exactly(t.pool)
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
	l, times := &t.lists[term], uint8(min(count, mostCounted))
	if l.head == 0 && l.count == 0 {
		l.slot, l.count = slot, times
		return
	}
	if l.head == 0 {
		first, often := l.slot, l.count
		l.slot, l.count = 0, 0
		t.store(l, first, often)
	}
	t.store(l, slot, times)
}

// store writes a posting to the chunks of a list: twice the distance to the slot before it,
// plus one where the count follows because it is not 1.
func (t *terms) store(l *list, slot int32, count uint8) {
	var b [binary.MaxVarintLen64 + 1]byte
	distance := uint64(slot-l.slot) << 1
	if count > 1 {
		distance |= 1
	}
	n := binary.PutUvarint(b[:], distance)
	if count > 1 {
		b[n] = count
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
	l.slot = slot
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
	}
	l.tail, l.left = begin, sizeOf(l.next)
	l.next = after(l.next)
	t.pool = append(t.pool, make([]byte, int(l.left)+nextBytes)...)
}

// sizeOf returns the size of a chunk by what list.next says, and after what it says then.
func sizeOf(next uint8) uint16 { return chunkBytes[next&^packed] }

func after(next uint8) uint8 {
	return next&packed | min(next&^packed+1, uint8(len(chunkBytes)-1))
}

// postings returns the slots of the texts that have a term, and how often each has it.
func (t *terms) postings(term int32) iter.Seq2[int32, int32] {
	return func(yield func(slot, count int32) bool) {
		l := &t.lists[term]
		if l.head == 0 {
			if l.count > 0 {
				yield(l.slot, int32(l.count))
			}
			return
		}
		r, slot := t.read(l), int32(0)
		for r.at != l.tail {
			distance, count := r.uvarint(), int32(1)
			if distance&1 > 0 {
				count = int32(r.byte())
			}
			slot += int32(distance >> 1)
			if !yield(slot, count) {
				return
			}
		}
	}
}

// reader reads the chunks of a list.
type reader struct {
	pool []byte
	at   uint32
	left uint32
	next uint8
}

// read returns a reader of a list that has chunks.
func (t *terms) read(l *list) reader {
	r := reader{pool: t.pool, at: l.head}
	if l.next&packed == 0 {
		r.left, r.next = uint32(sizeOf(0)), after(0)
		return r
	}
	size, n := binary.Uvarint(t.pool[l.head:])
	r.at, r.left = r.at+uint32(n), uint32(size)
	return r
}

func (r *reader) byte() byte {
	if r.left == 0 {
		r.at = binary.LittleEndian.Uint32(r.pool[r.at:])
		r.left = uint32(sizeOf(r.next))
		r.next = after(r.next)
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
