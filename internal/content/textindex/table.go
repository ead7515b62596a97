package textindex

import "hash/maphash"

// table finds numbers by their names: those of terms and of slots. It keeps the numbers
// alone; the names are where the numbers lead.
type table struct {
	places []uint32 // numbers plus one, each at the place of its name's hash or behind it; 0: free
	used   int
	seed   maphash.Seed
}

const leastPlaces = 16

func newTable() table { return table{seed: maphash.MakeSeed(), places: make([]uint32, leastPlaces)} }

func (t *table) bytes() int { return 4 * cap(t.places) }

// first returns where a name stands if no other stands there.
func (t *table) first(name string) int {
	return int(maphash.String(t.seed, name) >> 32 * uint64(len(t.places)) >> 32)
}

func (t *table) behind(at int) int {
	if at++; at == len(t.places) {
		return 0
	}
	return at
}

// find returns the number that has a name, and reports whether there is one. is reports
// whether a number has it.
func (t *table) find(name string, is func(number int32) bool) (number int32, known bool) {
	for at := t.first(name); t.places[at] != 0; at = t.behind(at) {
		if number := int32(t.places[at]) - 1; is(number) {
			return number, true
		}
	}
	return 0, false
}

// add adds a number by its name, which no other has. name returns those of all numbers; ""
// for one that is not looked for any more.
func (t *table) add(of string, number int32, name func(number int32) string) {
	if 4*(t.used+1) > 3*len(t.places) {
		t.rebuild(2*len(t.places), name)
	}
	t.put(of, number)
}

func (t *table) put(name string, number int32) {
	at := t.first(name)
	for t.places[at] != 0 {
		at = t.behind(at)
	}
	t.places[at] = uint32(number) + 1
	t.used++
}

// shrink makes the table as small as it may be with so many numbers.
func (t *table) shrink(numbers int, name func(number int32) string) {
	t.rebuild(max(leastPlaces, 4*(numbers+1)/3+1), name)
}

func (t *table) rebuild(size int, name func(number int32) string) {
	old := t.places
	t.places, t.used = make([]uint32, size), 0
	for _, place := range old {
		if place == 0 {
			continue
		}
		if name := name(int32(place) - 1); name != "" {
			t.put(name, int32(place)-1)
		}
	}
}
