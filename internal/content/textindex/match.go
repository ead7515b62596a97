package textindex

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"agentd/internal/base/text"
)

// sought is a word of a query and what it is found by.
type sought struct {
	word    string
	in      *language
	weight  float64 // what it counts in the query
	terms   map[int32]match
	phrases []phrase
}

// match is how well a term stands for a word.
type match struct {
	weight float64 // how much its occurrences count, at most 1
	exact  bool    // it is the word itself, so that it counts in texts of any language
}

// phrase are several words that together stand for a word.
type phrase []map[int32]match

// What counts less than the word itself.
const (
	asPart    = 0.9 // of a compound: Frist in Rückgabefrist, and the other way round
	asHalf    = 0.7 // of one whose other part is nowhere
	asPrefix  = 0.8
	asSimilar = 0.8
	asForeign = 0.5 // what is not the word itself, in a text of another language
	asWeak    = 0.5 // a word that says little of what a text is about
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

// seek returns what the words of a query are found by, in their order and each once, and
// the language of the query (0: not known). Words without a meaning of their own are not
// looked for.
func (x *Index) seek(query string, synonyms [][]string) ([]sought, int8) {
	tokens := tokensOf(query)
	in, sure := detect(tokens)
	var all []sought
	place := map[string]int{} // in all
	for _, token := range tokens {
		if len(all) == maxSought {
			break
		}
		if _, seen := place[token]; seen || in != nil && in.stop[token] {
			continue
		}
		place[token] = len(all)
		all = append(all, x.lookUp(in, sure, token))
	}
	switch {
	case in == nil:
		x.seekInCompounds(all, leastSpan)
	case in.compounds:
		x.seekInCompounds(all, leastPart)
	}
	guesses := maxGuessed
	for i := range all {
		if w := &all[i]; len(w.terms) == 0 && guesses > 0 {
			guesses--
			x.begun(forms(in, w.word), w)
		}
	}
	x.addSynonyms(in, tokens, synonyms, func(token string) *sought {
		if at, is := place[token]; is {
			return &all[at]
		}
		return nil
	})
	guesses = maxGuessed
	for i := range all {
		if w := &all[i]; len(w.terms) == 0 && len(w.phrases) == 0 && guesses > 0 {
			guesses--
			x.similar(w)
		}
	}
	return all, number(in, sure)
}

// forms returns what a word is looked up by: itself, with umlauts that are not spelled
// out, and the stems of both.
func forms(in *language, token string) []string {
	all := []string{token}
	if spelled := spelledOut.Replace(token); spelled != token {
		all = append(all, spelled)
	}
	var s stemmer
	for _, form := range slices.Clone(all) {
		s.stems(in, form, func(stem string) { all = append(all, stem) })
	}
	return all
}

// lookUp returns what a word is found by: itself, its stem, its parts; where that is
// nowhere and the language is not sure, its stem in any language.
func (x *Index) lookUp(in *language, sure bool, token string) sought {
	w := sought{word: token, in: in, weight: 1, terms: map[int32]match{}}
	if in.weakly(token) {
		w.weight = asWeak
	}
	for i, form := range forms(in, token) {
		w.add(x, form, match{1, i == 0})
	}
	for i := 0; i < len(languages) && in != nil && !sure && len(w.terms) == 0; i++ {
		w.addAll(x, forms(&languages[i], token), 1)
	}
	if in != nil && in.compounds || in == nil && len(w.terms) == 0 && len(token) >= leastCompound {
		x.split(in, token, &w)
	}
	return w
}

// add notes that a word is found by another, if there is a text with it.
func (w *sought) add(x *Index, term string, m match) {
	if !m.exact && w.weight == 1 && w.in.weakly(term) {
		m.weight *= asWeak
	}
	if at, known := x.terms.find(term); known && w.terms[at].weight < m.weight && x.lives(at) {
		w.terms[at] = m
	}
}

// lives reports whether a text has a term.
func (x *Index) lives(term int32) bool {
	for slot := range x.terms.postings(term) {
		if x.slots[slot].id != "" {
			return true
		}
	}
	return false
}

// links are the letters that join the parts of compounds.
var links = []string{"", "s", "es", "n", "en", "er", "e"}

// split finds a compound by two words that it is made of, if texts have both.
func (x *Index) split(in *language, token string, w *sought) {
	has := func(part string) (terms []string) {
		var s stemmer
		forms := []string{part}
		s.stems(in, part, func(stem string) { forms = append(forms, stem) })
		for _, form := range forms {
			if in.stops(form) || len(form) < leastPart-1 {
				continue
			}
			if at, is := x.terms.find(form); is && x.lives(at) {
				terms = append(terms, form)
			}
		}
		return terms
	}
	for at := leastPart; at <= len(token)-leastPart; at++ {
		if !utf8.RuneStart(token[at]) {
			continue
		}
		tail := has(token[at:])
		for _, link := range links {
			head, linked := strings.CutSuffix(token[:at], link)
			if !linked || len(head) < leastPart {
				continue
			}
			first, weight := has(head), asPart
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
		w.add(x, term, match{weight: weight})
	}
}

// seekInCompounds adds the compounds that words of at least some letters are parts of.
func (x *Index) seekInCompounds(all []sought, least int) {
	parts := make([][]byte, len(all))
	for i := range all {
		if token := spelledOut.Replace(all[i].word); len(token) >= least {
			parts[i] = []byte(token)
		}
	}
	for term := range int32(x.terms.len()) {
		name := x.terms.name(term)
		if len(name) < 2*leastPart {
			continue
		}
		for i, part := range parts {
			if part == nil || len(name) < len(part)+leastPart-1 || len(all[i].terms) >= maxAlike {
				continue
			}
			if (bytes.HasPrefix(name, part) || bytes.HasSuffix(name, part)) && x.lives(term) {
				if _, known := all[i].terms[term]; !known {
					all[i].add(x, string(name), match{weight: asPart})
				}
			}
		}
	}
}

// begun finds a word that is nowhere by those that begin with it.
func (x *Index) begun(forms []string, w *sought) {
	shortest := slices.MinFunc(forms, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	if len(shortest) < leastPart {
		return
	}
	prefix := []byte(shortest)
	for term := range int32(x.terms.len()) {
		if bytes.HasPrefix(x.terms.name(term), prefix) && len(w.terms) < maxAlike && x.lives(term) {
			w.terms[term] = match{weight: asPrefix}
		}
	}
}

// similar finds a word by those that are spelled nearly as it is.
func (x *Index) similar(w *sought) {
	token := w.word
	if len(token) < leastAlike || strings.ContainsAny(token, "0123456789") {
		return
	}
	of, own, most := trigrams(token), letterSet([]byte(token)), 1
	if len(token) >= longWord {
		most = 2
	}
	for term := range int32(x.terms.len()) {
		letters := x.terms.name(term)
		longer := len(letters) - len(token)
		if longer < -most || longer > most || letters[0] != token[0] || len(w.terms) >= maxAlike { // few mistype the first letter
			continue
		}
		other := letterSet(letters) // an error changes one letter of each set at most
		if bits.OnesCount64(own&^other) > most || bits.OnesCount64(other&^own) > most {
			continue
		}
		if name := string(letters); text.Errors(token, name) <= most && shared(of, trigrams(name)) >= leastShared && x.lives(term) {
			w.terms[term] = match{weight: asSimilar}
		}
	}
}

// letterSet returns a bit for each letter of a word, by the last six bits of the letter.
func letterSet(word []byte) (set uint64) {
	for _, letter := range string(word) {
		set |= 1 << (letter & 63)
	}
	return set
}

// leastShared is the share of trigrams of two words that are spelled nearly the same.
const leastShared = 0.5

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

// longWord is how many letters a word has at least that may be misspelled twice.
const longWord = 8

// strengths sets how well texts have a word of a query in a language, by slot, from 0 to 1.
// Texts have words on average.
func (x *Index) strengths(w *sought, in int8, words float64, strengths map[int32]float64) {
	clear(strengths)
	x.occurrences(w.terms, in, words, func(slot int32, strength float64) {
		strengths[slot] = max(strengths[slot], strength)
	})
	for _, p := range w.phrases {
		for slot, strength := range x.together(p, in, words) {
			strengths[slot] = max(strengths[slot], strength)
		}
	}
}

// together returns the texts that have all words of a phrase, and how well they have the
// one that they have least.
func (x *Index) together(p phrase, in int8, words float64) map[int32]float64 {
	var all map[int32]float64
	for i, terms := range p {
		here := map[int32]float64{}
		x.occurrences(terms, in, words, func(slot int32, strength float64) {
			if before, is := all[slot]; is || i == 0 {
				if i > 0 {
					strength = min(strength, before)
				}
				here[slot] = max(here[slot], strength)
			}
		})
		all = here
	}
	return all
}

// occurrences calls each with the texts that have one of some terms, and how well.
func (x *Index) occurrences(terms map[int32]match, in int8, words float64, each func(slot int32, strength float64)) {
	for term, m := range terms {
		for slot, count := range x.terms.postings(term) {
			s := &x.slots[slot]
			if s.id == "" {
				continue
			}
			weight := m.weight
			if !m.exact && in != 0 && s.language != 0 && s.language != in {
				weight *= asForeign
			}
			n := float64(count)
			each(slot, weight*n/(n+k1*(1-b+b*float64(s.length)/words)))
		}
	}
}
