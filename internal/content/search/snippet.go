package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"agentd/internal/base/text"
	"agentd/internal/base/tokenize"
)

// leadIn is how many characters are shown before the match.
const leadIn = 50

// snippet returns one line of text around the first occurrence of one of the
// words; ok is false if there is none.
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
		// Do not start in the middle of a word.
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

// place returns where the first of the words begins in a body, or -1. The last
// word may be a prefix.
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
			// Scripts without spaces have long tokens; look for the query as it was
			// written.
			return begin + max(strings.Index(piece, literal), 0)
		}
		begin = -1
	}
	return -1
}

// part reports whether a character is part of a word for tokenize.
func part(r rune) bool {
	return r == '\'' || r == '’' || unicode.In(r, unicode.L, unicode.N, unicode.M)
}

func contains(piece string, words []string) (has bool, word string) {
	if len(words) == 0 {
		return false, ""
	}
	last := words[len(words)-1]
	tokenize.Words(piece, func(token []byte) {
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
