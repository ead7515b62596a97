package knowledge

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"agentd/internal/base/fault"
)

// Bounds of a base's synonyms, all of which each search of it reads.
const (
	maxSynonyms     = 100 // groups
	maxSynonymGroup = 10  // words of one
	maxSynonymChars = 300 // of one
)

// checkSynonyms returns what is wrong with groups of synonyms.
func checkSynonyms(groups []string) []fault.Field {
	var wrong []fault.Field
	if len(groups) > maxSynonyms {
		return append(wrong, fault.Field{Field: "synonyms", Message: fmt.Sprintf("there are more than %d groups", maxSynonyms)})
	}
	for i, group := range groups {
		if n := len(synonymsOf(group)); n < 2 || n > maxSynonymGroup || utf8.RuneCountInString(group) > maxSynonymChars {
			wrong = append(wrong, fault.Field{
				Field: fmt.Sprintf("synonyms[%d]", i),
				Message: fmt.Sprintf("a group has 2 to %d words, separated by commas, and at most %d characters: PTO, paid time off",
					maxSynonymGroup, maxSynonymChars),
			})
		}
	}
	return wrong
}

// synonymsOf returns the words of a group.
func synonymsOf(group string) (words []string) {
	for word := range strings.SplitSeq(group, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// synonyms returns the groups by which a base is searched.
func (b *base) synonyms() [][]string {
	all := make([][]string, len(b.Synonyms))
	for i, group := range b.Synonyms {
		all[i] = synonymsOf(group)
	}
	return all
}
