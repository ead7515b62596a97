package textindex

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

// What synonyms count: those that are named for these texts, and those that are
// known of a language.
const (
	asNamed   = 0.9
	asSynonym = 0.6
)

//go:embed synonyms.txt
var synonymLists string

// thesaurus are groups of words that stand for each other.
type thesaurus struct {
	groups [][]entry
	heads  map[string][]place // by the forms of the first word of an entry
}

// entry is a word, or several that are used together, as they are indexed.
type entry []string

type place struct{ group, entry int }

// newThesaurus returns groups of words as they are looked up for words of a language.
func newThesaurus(in *language, groups [][]string) *thesaurus {
	t := &thesaurus{heads: map[string][]place{}}
	for _, words := range groups {
		var group []entry
		for _, word := range words {
			e := entry(tokensOf(word))
			if len(e) == 0 {
				continue
			}
			for _, form := range forms(in, e[0]) {
				t.heads[form] = append(t.heads[form], place{len(t.groups), len(group)})
			}
			group = append(group, e)
		}
		t.groups = append(t.groups, group)
	}
	return t
}

// known returns the synonyms that are known of a language.
var known = func() map[*language]func() *thesaurus {
	all := map[*language]func() *thesaurus{}
	for i := range languages {
		in := &languages[i]
		all[in] = sync.OnceValue(func() *thesaurus {
			var groups [][]string
			for line := range strings.Lines(listOf(synonymLists, in.name)) {
				groups = append(groups, strings.Split(line, ","))
			}
			return newThesaurus(in, groups)
		})
	}
	return all
}()

// addSynonyms adds to words of a query what stands for them: named groups, and those of
// the query's language, or of the most common ones.
func (x *Index) addSynonyms(in *language, tokens []string, named [][]string, of func(token string) *sought) {
	if len(named) > 0 {
		x.addGroups(newThesaurus(in, named), in, tokens, asNamed, of)
	}
	if in != nil {
		x.addGroups(known[in](), in, tokens, asSynonym, of)
		return
	}
	for i := range common {
		x.addGroups(known[&languages[i]](), &languages[i], tokens, asSynonym, of)
	}
}

func (x *Index) addGroups(t *thesaurus, in *language, tokens []string, weight float64, of func(token string) *sought) {
	for i, token := range tokens {
		seen := map[place]bool{}
		for _, form := range forms(in, token) {
			for _, p := range t.heads[form] {
				e := t.groups[p.group][p.entry]
				if seen[p] || !e.begins(in, tokens[i:]) {
					continue
				}
				seen[p] = true
				for _, word := range tokens[i : i+len(e)] {
					if w := of(word); w != nil {
						x.addGroup(w, in, t.groups[p.group], p.entry, weight)
					}
				}
			}
		}
	}
}

// begins reports whether words begin with those of an entry, the first of which they do
// begin with.
func (e entry) begins(in *language, tokens []string) bool {
	if len(tokens) < len(e) {
		return false
	}
	for i, word := range e[1:] {
		mine := forms(in, word)
		if !slices.ContainsFunc(forms(in, tokens[i+1]), func(form string) bool { return slices.Contains(mine, form) }) {
			return false
		}
	}
	return true
}

// addGroup adds a group's entries, except for one, to what a word is found by.
func (x *Index) addGroup(w *sought, in *language, group []entry, except int, weight float64) {
	for i, e := range group {
		if i == except || len(w.terms) >= maxAlike || len(w.phrases) >= maxPhrases {
			continue
		}
		if len(e) == 1 {
			for _, form := range forms(in, e[0]) {
				w.add(x, form, match{weight: weight})
			}
			continue
		}
		if p := x.phrase(in, e, weight); p != nil {
			w.phrases = append(w.phrases, p)
		}
	}
}

// maxPhrases bounds the phrases that a word is found by.
const maxPhrases = 8

// phrase returns several words as they are found, without those that have no meaning of
// their own; nil: one of them is nowhere.
func (x *Index) phrase(in *language, words entry, weight float64) phrase {
	var p phrase
	for _, word := range words {
		if in.stops(word) {
			continue
		}
		w := sought{in: in, weight: asWeak, terms: map[int32]match{}}
		for _, form := range forms(in, word) {
			w.add(x, form, match{weight: weight})
		}
		if len(w.terms) == 0 {
			return nil
		}
		p = append(p, w.terms)
	}
	return p
}
