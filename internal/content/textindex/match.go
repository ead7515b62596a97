package textindex

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// sought is a word of a query and what it is found by.
type sought struct {
	word  string
	terms map[int32]float64 // by term, how much its occurrences count, at most 1
}

// What counts less than the word itself.
const (
	asPart    = 0.8 // of a compound: Frist in Rückgabefrist, and the other way round
	asHalf    = 0.6 // of one whose other part is nowhere
	asPrefix  = 0.7
	asSimilar = 0.6
)

// Bounds of what a query costs.
const (
	maxSought     = 32 // words that are looked up
	maxGuessed    = 8  // words that are nowhere and are found by others
	maxAlike      = 64 // terms that one word is found by
	leastPart     = 4  // letters of a part of a compound
	leastHalf     = 5  // and of one whose other part is nowhere
	leastSpan     = 6  // and of one in a query whose language is not known
	leastCompound = 9  // letters of a compound in a query whose language is not known
	leastAlike    = 5  // letters of a word that may be misspelled
)

// seek returns what the words of a query are found by, in their order and each once. Words
// without a meaning of their own are not looked for.
func (x *Index) seek(text string) []sought {
	tokens := tokensOf(text)
	in := detect(tokens)
	var all []sought
	seen, guesses := map[string]bool{}, maxGuessed
	for _, token := range tokens {
		if len(all) == maxSought {
			break
		}
		if seen[token] || in != nil && in.stop[token] {
			continue
		}
		seen[token] = true
		all = append(all, x.lookUp(in, token, &guesses))
	}
	switch {
	case in == nil:
		x.seekInCompounds(all, leastSpan)
	case in.compounds:
		x.seekInCompounds(all, leastPart)
	}
	return all
}

// lookUp returns what a word is found by: itself, its stem, its parts; where that is
// nowhere, words that begin with it, and then those that are spelled alike, as long as
// guesses are left.
func (x *Index) lookUp(in *language, token string, guesses *int) sought {
	w := sought{token, map[int32]float64{}}
	forms := []string{token}
	if spelled := spelledOut.Replace(token); spelled != token {
		forms = append(forms, spelled)
	}
	var s stemmer
	for _, form := range slices.Clone(forms) {
		s.stems(in, form, func(stem string) { forms = append(forms, stem) })
	}
	for _, form := range forms {
		w.add(x, form, 1)
	}
	if in != nil && in.compounds || in == nil && len(w.terms) == 0 && len(token) >= leastCompound {
		x.split(in, token, &w)
	}
	if len(w.terms) == 0 && *guesses > 0 {
		*guesses--
		x.alike(forms, &w)
	}
	return w
}

// add notes that a word is found by another, if there is a text with it.
func (w *sought) add(x *Index, term string, weight float64) {
	if at, known := x.terms[term]; known && x.lives(at) {
		w.terms[at] = max(w.terms[at], weight)
	}
}

// lives reports whether a text has a term.
func (x *Index) lives(term int32) bool {
	return slices.ContainsFunc(x.postings[term], func(p posting) bool { return x.slots[p.slot].id != "" })
}

// links are the letters that join the parts of compounds.
var links = []string{"", "s", "es", "n", "en", "er", "e"}

// split finds a compound by two words that it is made of, if texts have both.
func (x *Index) split(in *language, token string, w *sought) {
	known := func(part string) (terms []string) {
		var s stemmer
		forms := []string{part}
		s.stems(in, part, func(stem string) { forms = append(forms, stem) })
		for _, form := range forms {
			if at, is := x.terms[form]; is && x.lives(at) {
				terms = append(terms, form)
			}
		}
		return terms
	}
	for at := leastPart; at <= len(token)-leastPart; at++ {
		if !utf8.RuneStart(token[at]) {
			continue
		}
		tail := known(token[at:])
		for _, link := range links {
			head, linked := strings.CutSuffix(token[:at], link)
			if !linked || len(head) < leastPart {
				continue
			}
			first, weight := known(head), asPart
			if len(first) == 0 || len(tail) == 0 {
				weight = asHalf
			}
			if weight == asPart || len(head) >= leastHalf {
				w.addAll(x, first, weight)
			}
			if weight == asPart || len(token)-at >= leastHalf {
				w.addAll(x, tail, weight)
			}
		}
	}
}

func (w *sought) addAll(x *Index, terms []string, weight float64) {
	for _, term := range terms {
		w.add(x, term, weight)
	}
}

// seekInCompounds adds the compounds that words of at least some letters are parts of.
func (x *Index) seekInCompounds(all []sought, least int) {
	for term, name := range x.names {
		if len(name) < 2*leastPart {
			continue
		}
		for i := range all {
			token := spelledOut.Replace(all[i].word)
			if len(token) < least || len(name) < len(token)+leastPart-1 || len(all[i].terms) >= maxAlike {
				continue
			}
			if (strings.HasPrefix(name, token) || strings.HasSuffix(name, token)) && x.lives(int32(term)) {
				if _, known := all[i].terms[int32(term)]; !known {
					all[i].terms[int32(term)] = asPart
				}
			}
		}
	}
}

// alike finds a word that is nowhere by those that begin with it, else by those that are
// spelled nearly as it is.
func (x *Index) alike(forms []string, w *sought) {
	token := forms[0]
	shortest := slices.MinFunc(forms, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	if len(shortest) >= leastPart {
		for term, name := range x.names {
			if strings.HasPrefix(name, shortest) && len(w.terms) < maxAlike && x.lives(int32(term)) {
				w.terms[int32(term)] = asPrefix
			}
		}
	}
	if len(w.terms) > 0 || len(token) < leastAlike || strings.ContainsAny(token, "0123456789") {
		return
	}
	of := trigrams(token)
	for term, name := range x.names {
		if d := len(name) - len(token); d < -2 || d > 2 || name[0] != token[0] { // few mistype the first letter
			continue
		}
		if shared(of, trigrams(name)) >= leastShared && len(w.terms) < maxAlike && x.lives(int32(term)) {
			w.terms[int32(term)] = asSimilar
		}
	}
}

// leastShared is the share of trigrams of two words that are spelled nearly the same.
const leastShared = 0.55

// trigrams returns the sequences of three letters of a word, its ends marked, sorted.
func trigrams(word string) []string {
	marked := []rune("^" + word + "$")
	var all []string
	for i := 0; i+3 <= len(marked); i++ {
		all = append(all, string(marked[i:i+3]))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// shared returns the Dice coefficient of two sorted lists.
func shared(a, b []string) float64 {
	if len(a)+len(b) == 0 {
		return 0
	}
	both, j := 0, 0
	for _, t := range a {
		for j < len(b) && b[j] < t {
			j++
		}
		if j < len(b) && b[j] == t {
			both++
		}
	}
	return 2 * float64(both) / float64(len(a)+len(b))
}

// occurrences returns how often texts have a word, by slot, in what it is found by.
func (x *Index) occurrences(w sought, counts map[int32]float64) {
	clear(counts)
	for _, term := range slices.Sorted(maps.Keys(w.terms)) {
		weight := w.terms[term]
		for _, p := range x.postings[term] {
			if x.slots[p.slot].id != "" {
				counts[p.slot] = max(counts[p.slot], weight*float64(p.count))
			}
		}
	}
}
