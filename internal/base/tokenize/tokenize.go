// Package tokenize splits texts into the words by which they are found.
package tokenize

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxToken bounds a token's bytes: a longer run of letters is not a word, and its
// beginning identifies it well enough.
const maxToken = 64

// Words calls each with the words of a text as they are indexed: lower case,
// without accents, apostrophes and punctuation. Scripts without spaces between
// words, and Hangul, yield single characters and pairs of neighbours. The bytes
// are valid only until each returns.
func Words(text string, each func(token []byte)) {
	t := tokenizer{each: each}
	for _, r := range fold(text) {
		t.add(r)
	}
	t.end()
}

type tokenizer struct {
	each func([]byte)
	word []byte
	last rune // the character before, in a script without spaces; else 0
	pair [2 * utf8.UTFMax]byte
}

func (t *tokenizer) add(r rune) {
	switch {
	case unsegmented(r):
		t.end()
		one := utf8.AppendRune(t.pair[:0], r)
		t.each(one)
		if t.last != 0 {
			t.each(utf8.AppendRune(utf8.AppendRune(t.pair[:0], t.last), r))
		}
		t.last = r
		return
	case r == '\'' || r == '’':
		return
	case r < utf8.RuneSelf:
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			t.word = append(t.word, byte(r))
		} else {
			t.end()
		}
	case unicode.In(r, unicode.L, unicode.N, unicode.M):
		t.word = utf8.AppendRune(t.word, r)
	default:
		t.end()
	}
	t.last = 0
}

func (t *tokenizer) end() {
	if len(t.word) == 0 {
		return
	}
	if len(t.word) > maxToken {
		end := maxToken
		for !utf8.RuneStart(t.word[end]) {
			end--
		}
		t.word = t.word[:end]
	}
	t.each(t.word)
	t.word = t.word[:0]
}

// Normalize returns a text in a comparable form: its words, joined.
func Normalize(text string) string {
	var b strings.Builder
	Words(text, func(token []byte) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.Write(token)
	})
	return b.String()
}

// Distinct returns the first most different words of a text, each cut to a number of
// characters. It is never nil.
func Distinct(text string, most, characters int) []string {
	found := []string{}
	Words(text, func(word []byte) {
		if w := begin(word, characters); len(found) < most && !slices.Contains(found, w) {
			found = append(found, w)
		}
	})
	return found
}

func begin[T string | []byte](word T, characters int) string {
	for i := range string(word) {
		if characters == 0 {
			return string(word[:i])
		}
		characters--
	}
	return string(word)
}

// Beginnings returns the beginnings of 1, 3 and 6 characters of words, each once.
// [Beginning] returns the one by which words that begin otherwise are found.
func Beginnings(words []string) (all []string) {
	for _, word := range words {
		for _, characters := range beginnings {
			if b := begin(word, characters); utf8.RuneCountInString(b) == characters {
				all = append(all, b)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// beginnings are the lengths, in characters, of the beginnings that are kept.
var beginnings = [...]int{1, 3, 6}

// Beginning returns the longest of a word's [Beginnings]. Every word that begins with
// the whole word has it, too.
func Beginning(word string) string {
	length, characters := 0, utf8.RuneCountInString(word)
	for _, b := range beginnings {
		if b <= characters {
			length = b
		}
	}
	return begin(word, length)
}

// fold maps letters that people consider the same to one. Hangul is decomposed
// and composed again at the end.
func fold(text string) string {
	ascii := true
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(text)
	}
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range norm.NFKD.String(text) {
		switch {
		case accent(r):
		case folded[r] != "":
			b.WriteString(folded[r])
		default:
			r = unicode.ToLower(r)
			if s := folded[r]; s != "" {
				b.WriteString(s)
			} else {
				b.WriteRune(r)
			}
		}
	}
	return norm.NFC.String(b.String())
}

// accent reports whether a mark only modifies the letter before it. The marks of
// other scripts are vowels that distinguish words.
func accent(r rune) bool {
	return 0x0300 <= r && r <= 0x036F || 0x0591 <= r && r <= 0x05C7 || 0x064B <= r && r <= 0x065F
}

// folded are letters that do not decompose.
var folded = map[rune]string{
	'ß': "ss", 'ẞ': "ss", 'ø': "o", 'đ': "d", 'ð': "d", 'ł': "l", 'æ': "ae", 'œ': "oe", 'þ': "th",
	'ħ': "h", 'ı': "i", 'ς': "σ", 'ʼ': "",
}

// unsegmented reports whether words of the character's script are found by pairs
// of characters.
func unsegmented(r rune) bool {
	if r < 0x0E00 {
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai,
		unicode.Lao, unicode.Khmer, unicode.Myanmar) &&
		!unicode.IsPunct(r)
}
