package knowledge

import (
	"cmp"
	"context"
	"slices"

	"agentd/internal/base/text"
	"agentd/internal/content/retrieval"
	"agentd/internal/content/textindex"
)

// Reranker says how well texts answer a question; the more, the better. It bounds the time
// that it takes.
type Reranker interface {
	Rerank(ctx context.Context, question string, texts []string) ([]float64, error)
}

// Bounds of what is reranked.
const (
	maxReranked     = 50
	maxRerankedText = 4000 // characters of a text, and of the question
)

// Warnings of a search whose order is that of the search alone.
const (
	noReranker   = "The results are not reranked: this deployment has no rerank model."
	rerankFailed = "The results are not reranked: the rerank model did not answer, or answered something else."
)

// rerank orders hits by how well their passages answer a question. Where that cannot be
// told they keep their order, and the warning says so.
func (s *Service) rerank(
	ctx context.Context, question string, hits []textindex.Hit, passages map[string]retrieval.Passage,
) (ordered []textindex.Hit, warning string) {
	if s.Reranker == nil {
		return hits, noReranker
	}
	hits = slices.DeleteFunc(hits, func(h textindex.Hit) bool { _, there := passages[h.ID]; return !there })
	n := min(len(hits), maxReranked)
	if n < 2 {
		return hits, ""
	}
	texts, at := make([]string, n), make(map[string]int, n)
	for i, h := range hits[:n] {
		texts[i], at[h.ID] = text.Prefix(passages[h.ID].Text, maxRerankedText), i
	}
	scores, err := s.Reranker.Rerank(ctx, text.Prefix(question, maxRerankedText), texts)
	if err != nil || len(scores) != n {
		s.Log.Warn("the results of a search are not reranked", "error", err)
		return hits, rerankFailed
	}
	slices.SortStableFunc(hits[:n], func(a, b textindex.Hit) int { return cmp.Compare(scores[at[b.ID]], scores[at[a.ID]]) })
	return hits, ""
}
