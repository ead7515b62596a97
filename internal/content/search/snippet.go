package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"agentd/internal/base/text"
	"agentd/internal/content/textindex"
)

// leadIn is how many characters are shown before what was found.
const leadIn = 50

// snippet gives a line of a text around the first place that has one of the
// words; ok is false where there is none.
func snippet(body string, words []string) (line string, ok bool) {
	at := place(body, words)
	if at < 0 {
		return "", false
	}
	from, runes := at, 0
	for from > 0 && runes < leadIn {
		_, size := utf8.DecodeLastRuneInString(body[:from])
		from, runes = from-size, runes+1
	}
	if from > 0 {
		// Not in the middle of a word, where there is another one before it.
		if i := strings.IndexFunc(body[from:at], unicode.IsSpace); i >= 0 {
			from += i
		}
	}
	line = oneLine(body[from:], maxSubtitle)
	if from > 0 && line != "" {
		line = "…" + line
	}
	return line, line != ""
}

// place is where the first of the words begins in a body, or -1. The last word
// may be the beginning of one.
func place(body string, words []string) int {
	begin := -1
	for i, r := range body + " " {
		if part(r) {
			if begin < 0 {
				begin = i
			}
			continue
		}
		if begin < 0 {
			continue
		}
		piece := body[begin:i]
		if has, literal := contains(piece, words); has {
			// Scripts without spaces give long pieces; what is written as it was
			// asked is found in them.
			return begin + max(strings.Index(piece, literal), 0)
		}
		begin = -1
	}
	return -1
}

// part says whether a character belongs to words, as textindex sees it.
func part(r rune) bool {
	return r == '\'' || r == '’' || unicode.In(r, unicode.L, unicode.N, unicode.M)
}

func contains(piece string, words []string) (has bool, word string) {
	if len(words) == 0 {
		return false, ""
	}
	last := words[len(words)-1]
	textindex.Tokens(piece, func(token []byte) {
		if has {
			return
		}
		if strings.HasPrefix(string(token), last) {
			has, word = true, last
			return
		}
		for _, w := range words {
			if string(token) == w {
				has, word = true, w
			}
		}
	})
	return has, word
}

// oneLine returns the beginning of s as one line: at most limit
// characters, and an ellipsis where there are more.
func oneLine(s string, limit int) string { return text.Truncate(text.OneLine(s), limit+1) }
