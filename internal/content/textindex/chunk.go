package textindex

import (
	"strings"
	"unicode"
)

// Chunk splits a text into pieces of at most size characters, each of which
// repeats up to overlap characters of the previous one. It splits before a Markdown
// heading if it can, else between paragraphs, lines, sentences or words, but makes no
// piece of less than half the size for that. Blank pieces are skipped. overlap is
// at most half of size, and size at least 2.
func Chunk(text string, size, overlap int) []string {
	runes := []rune(text)
	var pieces []string
	for from := 0; from < len(runes); {
		to := min(from+size, len(runes))
		if to < len(runes) {
			to = boundary(runes, from+size/2, to)
		}
		if piece := strings.TrimSpace(string(runes[from:to])); piece != "" {
			pieces = append(pieces, piece)
		}
		if to == len(runes) {
			break
		}
		from = max(from+1, wordStart(runes, to-overlap, to))
	}
	return pieces
}

// boundary returns the best place to split between least and most.
func boundary(runes []rune, least, most int) int {
	best, rank := most, 0
	for i := most; i > least && rank < 5; i-- {
		if r := cutRank(runes, i); r > rank {
			best, rank = i, r
		}
	}
	return best
}

// cutRank returns how good a place before runes[i] is to split, higher is better.
func cutRank(runes []rune, i int) int {
	before := runes[i-1]
	switch {
	case before == '\n' && i < len(runes) && runes[i] == '#':
		return 5
	case before == '\n' && i > 1 && runes[i-2] == '\n':
		return 4
	case before == '\n':
		return 3
	case strings.ContainsRune("。！？", before):
		return 2
	case !unicode.IsSpace(before):
		return 0
	case i > 1 && strings.ContainsRune(".!?", runes[i-2]):
		return 2
	}
	return 1
}

// wordStart returns the first beginning of a word in from..to, or from.
func wordStart(runes []rune, from, to int) int {
	for i := from; i < to; i++ {
		if i == 0 || unicode.IsSpace(runes[i-1]) {
			return i
		}
	}
	return from
}
