package knowledge

import (
	"path"
	"strings"

	"agentd/internal/base/text"
	"agentd/internal/content/textindex"
)

// chunk is a piece of a document, and where it stands.
type chunk struct {
	text string
	textindex.Place
}

// place is where a chunk stands: the title of its document, and the headings that it is
// under, outermost first. A chunk is found by its words, too.
type place struct {
	title    string
	headings []string
}

// maxPlace bounds the words of a place, in characters.
const maxPlace = 1000

// words returns the place as it is stored with the chunk: the title, and a line for each
// heading.
func (p place) words() string {
	return text.Prefix(strings.Join(append([]string{p.title}, p.headings...), "\n"), maxPlace)
}

// placeOf is the reverse of words.
func placeOf(words string) place {
	lines := strings.Split(words, "\n")
	return place{lines[0], lines[1:]}
}

// titleOf returns what the name of a file says about its content.
func titleOf(name string) string {
	return strings.TrimSuffix(name, path.Ext(name))
}
