package textindex

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxToken bounds a token's bytes: what is longer is no word, and its first
// part identifies it well enough.
const maxToken = 64

// Tokens calls each with the words of a text as they are indexed: lower-case,
// without accents, apostrophes and punctuation. Scripts that put no spaces
// between words, and Hangul, give single characters and pairs of neighbours.
// The bytes are each's only until it returns.
func Tokens(text string, each func(token []byte)) {
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

// Normalize is a text as it is compared with others: its tokens, joined.
func Normalize(text string) string {
	var b strings.Builder
	Tokens(text, func(token []byte) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.Write(token)
	})
	return b.String()
}

// fold makes letters that people take for the same one the same. Hangul is
// taken apart by the decomposition, and put together again at the end.
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

// accent says whether a mark only colours the letter before it. The marks of
// other scripts are vowels, without which a word is another one.
func accent(r rune) bool {
	return 0x0300 <= r && r <= 0x036F || 0x0591 <= r && r <= 0x05C7 || 0x064B <= r && r <= 0x065F
}

// folded are letters that do not decompose.
var folded = map[rune]string{
	'ß': "ss", 'ẞ': "ss", 'ø': "o", 'đ': "d", 'ð': "d", 'ł': "l", 'æ': "ae", 'œ': "oe", 'þ': "th", 'ħ': "h", 'ı': "i", 'ς': "σ", 'ʼ': "",
}

// unsegmented says whether words of the character's script are found by pairs
// of characters.
func unsegmented(r rune) bool {
	if r < 0x0E00 {
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) &&
		!unicode.IsPunct(r)
}
