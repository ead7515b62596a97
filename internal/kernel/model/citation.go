package model

import "slices"

// Citation is a passage of a document that a tool's result has, so that what an answer
// says can be looked up.
type Citation struct {
	Source     string   `json:"source"` // name of the document
	BaseID     string   `json:"knowledge_base_id"`
	DocumentID string   `json:"document_id"`
	Headings   []string `json:"headings,omitzero"`
	Page       int      `json:"page,omitzero"`  // from 1
	Start      *int     `json:"start,omitzero"` // characters of the document's text before the passage
	Quote      string   `json:"quote"`          // how the passage begins
	Score      float64  `json:"score"`
}

// maxCitations is how many citations a run keeps.
const maxCitations = 20

// JoinCitations returns the citations of both lists, each passage once: the first 20.
func JoinCitations(all, more []Citation) []Citation {
	for i := range more {
		c := &more[i]
		known := slices.ContainsFunc(all, func(k Citation) bool { return k.DocumentID == c.DocumentID && k.Quote == c.Quote })
		if !known && len(all) < maxCitations {
			all = append(slices.Clip(all), *c)
		}
	}
	return all
}
