package resource

import "agentd/internal/base/tokenize"

// wordsOf returns the words of a name, or of what a client looks for.
func wordsOf(name string) []string { return tokenize.Distinct(name, MaxWords, MaxWord) }

// setWords makes the document of an edit be found by its label. A label that did
// not change keeps its words.
func (p *plan[T]) setWords(doc *Doc, e *Edit[T]) {
	if p.Label == nil {
		return
	}
	label := p.Label(e.New)
	if e.Old == nil || p.Label(e.Old) != label {
		doc.Words = wordsOf(label)
	}
}
