package guardrail

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// wordSet finds words and phrases in texts, as whole words. It ignores how letters are
// composed, invisible characters within a word, and the kind of space between words.
type wordSet struct {
	fold bool
	root *trieNode
}

// trieNode is a node in the trie of the words.
type trieNode struct {
	next map[rune]*trieNode
	ends bool // a word ends here
}

func newWords(fold bool) *wordSet { return &wordSet{fold, &trieNode{}} }

// add adds a word, and reports false for a blank one.
func (w *wordSet) add(word string) bool {
	word = strings.Join(strings.Fields(norm.NFC.String(word)), " ")
	at := w.root
	for _, r := range word {
		if invisible(r) {
			continue
		}
		first, second := w.letter(r)
		at = at.child(first)
		if second != 0 {
			at = at.child(second)
		}
	}
	at.ends = at != w.root
	return at != w.root
}

func (b *trieNode) child(r rune) *trieNode {
	if b.next == nil {
		b.next = map[rune]*trieNode{}
	}
	if b.next[r] == nil {
		b.next[r] = &trieNode{}
	}
	return b.next[r]
}

// letter returns what a rune is compared as; ß is two letters if case is ignored.
func (w *wordSet) letter(r rune) (first, second rune) {
	if unicode.IsSpace(r) {
		return ' ', 0
	}
	if !w.fold {
		return r, 0
	}
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r, 0
	}
	if r == 'ß' || r == 'ẞ' {
		return 's', 's'
	}
	// The smallest of all runes that are the same letter.
	least := r
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		least = min(least, o)
	}
	if 'A' <= least && least <= 'Z' {
		least += 'a' - 'A'
	}
	return least, 0
}

// invisible reports whether a rune only joins, breaks or directs text.
func invisible(r rune) bool { return r >= 0x80 && unicode.Is(unicode.Cf, r) }

// wordRune reports whether a rune is part of a word.
func wordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
	}
	return unicode.In(r, unicode.L, unicode.N, unicode.M) || invisible(r)
}

// sameWord reports whether two adjacent runes belong to one word. In scripts without
// spaces any two letters may belong to different words.
func sameWord(a, b rune) bool {
	return wordRune(a) && wordRune(b) && !spaceless(a) && !spaceless(b)
}

func spaceless(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer,
		unicode.Myanmar)
}

// redact replaces the words in a text and returns their number n. If there were any,
// the text is returned in composed form.
func (w *wordSet) redact(text, replacement string) (redacted string, n int) {
	if !norm.NFC.IsNormalString(text) {
		text = norm.NFC.String(text)
	}
	var out strings.Builder
	from := 0
	before := ' '
	for i := 0; i < len(text); {
		r, size := decode(text[i:])
		if !sameWord(before, r) {
			if end := w.match(text, i); end > 0 {
				out.WriteString(text[from:i])
				out.WriteString(replacement)
				n++
				before, _ = utf8.DecodeLastRuneInString(text[:end])
				i, from = end, end
				continue
			}
		}
		before = r
		i += size
	}
	if n == 0 {
		return text, 0
	}
	out.WriteString(text[from:])
	return out.String(), n
}

func decode(text string) (rune, int) {
	if text[0] < utf8.RuneSelf {
		return rune(text[0]), 1
	}
	return utf8.DecodeRuneInString(text)
}

// match returns the end of the longest word that begins at i, 0 if there is none.
func (w *wordSet) match(text string, i int) (end int) {
	at := w.root
	spaced := false
	for i < len(text) {
		r, size := decode(text[i:])
		i += size
		if invisible(r) {
			continue
		}
		first, second := w.letter(r)
		if first == ' ' && spaced {
			continue
		}
		spaced = first == ' '
		if at = at.next[first]; at != nil && second != 0 {
			at = at.next[second]
		}
		if at == nil {
			return end
		}
		if at.ends {
			next := ' '
			if i < len(text) {
				next, _ = decode(text[i:])
			}
			if !sameWord(r, next) {
				end = i
			}
		}
	}
	return end
}

type keywordFinder struct {
	words       *wordSet
	replacement string
}

func (k keywordFinder) find(_ *search, text string) (match, error) {
	redacted, n := k.words.redact(text, k.replacement)
	if n == 0 {
		return match{}, nil
	}
	return match{text: redacted, what: []string{"keyword"}}, nil
}

func (keywordFinder) because([]string) string { return "it contains a listed word" }
