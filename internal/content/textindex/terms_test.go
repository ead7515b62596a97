package textindex

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTerms adds postings of words that are rare and of words that nearly every text has,
// and compares what is kept with lists that are not packed.
func TestTerms(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	kept := newTerms()
	want := map[string][][2]int32{}
	slot := int32(0)
	for range 20_000 { // texts
		for range 1 + rng.IntN(3) {
			name := fmt.Sprintf("w%d", int(rng.ExpFloat64()*200))
			if list := want[name]; len(list) > 0 && list[len(list)-1][0] == slot {
				continue
			}
			count := 1 + int32(rng.ExpFloat64())
			if rng.IntN(100) == 0 {
				count = 1000
			}
			kept.post(kept.add(name), slot, count)
			want[name] = append(want[name], [2]int32{slot, min(count, mostCounted)})
		}
		slot += int32(1 + rng.ExpFloat64()*rng.ExpFloat64()*300)
	}
	check := func() {
		t.Helper()
		sameTerms(t, &kept, want)
	}
	check()
	before := kept.bytes()
	kept.shrink()
	check()
	if now := kept.bytes(); now >= before*9/10 {
		t.Errorf("shrinking %d bytes leaves %d", before, now)
	}
	for name, list := range want { // and goes on after that
		next := list[len(list)-1][0] + int32(rng.IntN(300)) + 1
		kept.post(kept.add(name), next, 2)
		want[name] = append(list, [2]int32{next, 2})
		if rng.IntN(3) == 0 {
			kept.post(kept.add(name), next+70_000, 1)
			want[name] = append(want[name], [2]int32{next + 70_000, 1})
		}
	}
	check()
	kept.shrink()
	kept.shrink()
	check()
}

func sameTerms(t *testing.T, kept *terms, want map[string][][2]int32) {
	t.Helper()
	if kept.len() != len(want) {
		t.Errorf("there are %d terms, want %d", kept.len(), len(want))
	}
	terms := map[int32]bool{}
	for name, list := range want {
		term, known := kept.find(name)
		if !known || string(kept.name(term)) != name || terms[term] {
			t.Fatalf("%s is term %d, %v", name, term, known)
		}
		terms[term] = true
		var got [][2]int32
		for slot, count := range kept.postings(term) {
			got = append(got, [2]int32{slot, count})
		}
		if diff := cmp.Diff(list, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for slot := range kept.postings(term) {
			if slot != list[0][0] {
				t.Errorf("%s: the first text is %d", name, slot)
			}
			break
		}
	}
	if term, known := kept.find("nowhere"); known {
		t.Errorf("a name that was not added is term %d", term)
	}
}

// TestShrink shrinks indexes of no text, of one, and of few, which have no word in common,
// and goes on with them.
func TestShrink(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		x := New()
		x.Shrink()
		for i := range n {
			x.Put(Doc{ID: fmt.Sprint("old", i), Text: fmt.Sprintf("w%02dord", i), Kind: fmt.Sprint(i % 3)})
		}
		x.Shrink()
		x.Shrink()
		x.Put(Doc{ID: "new", Text: "w00ord tulips"})
		for i := range n {
			hits := x.Search(Query{Text: fmt.Sprintf("w%02dord", i), Limit: 1, Strategy: Relevance, Kinds: []string{fmt.Sprint(i % 3)}})
			if len(hits) != 1 || hits[0].ID != fmt.Sprint("old", i) {
				t.Fatalf("%d texts: number %d is in %v", n, i, hits)
			}
			x.Remove(fmt.Sprint("old", i))
			if hits := x.Search(Query{Text: fmt.Sprintf("w%02dord", i), Limit: 5, Kinds: []string{fmt.Sprint(i % 3)}}); len(hits) > 0 {
				t.Fatalf("%d texts: a removed one is found: %v", n, hits)
			}
		}
		x.Shrink()
		if hits := x.Search(Query{Text: "tulips", Limit: 1}); x.Len() != 1 || len(hits) != 1 {
			t.Fatalf("%d texts: %d left, and %v found", n, x.Len(), hits)
		}
	}
}

// TestWordsOfNoTextAreForgotten replaces one text over and over: the index stays small.
func TestWordsOfNoTextAreForgotten(t *testing.T) {
	t.Parallel()
	x := New()
	for i := range 2000 {
		x.Put(Doc{ID: "same", Text: fmt.Sprintf("number%d of many", i)})
	}
	x.Shrink()
	if n := x.terms.len(); n > 300 {
		t.Errorf("there are %d terms of one text", n)
	}
	if hits := x.Search(Query{Text: "number1999", Limit: 1}); len(hits) != 1 {
		t.Errorf("found %v", hits)
	}
}
