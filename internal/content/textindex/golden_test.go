package textindex

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// golden is the set of questions that shows whether a change finds more or less.
type golden struct {
	index     *Index
	questions [][2]string // passage and question
	noise     []string
}

// readGolden reads the questions and passages of files; all passages stand in one index.
func readGolden(t testing.TB, names ...string) golden {
	t.Helper()
	var raw []byte
	for _, name := range names {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, text...)
	}
	g := golden{index: New()}
	for line := range strings.Lines(string(raw)) {
		kind, rest := line[0], strings.TrimSpace(line[1:])
		id, text, _ := strings.Cut(rest, "|")
		id, text = strings.TrimSpace(id), strings.TrimSpace(text)
		switch kind {
		case '=':
			g.index.Put(Doc{ID: id, Text: text})
		case '?':
			g.questions = append(g.questions, [2]string{id, text})
		case '!':
			g.noise = append(g.noise, rest)
		}
	}
	return g
}

// figures asks all questions and returns the share whose passage is among the first
// five, the mean reciprocal rank, and the share of noise that finds something.
func (g *golden) figures(t testing.TB) (recall, mrr, noise float64) {
	for _, q := range g.questions {
		found := g.index.Search(Query{Text: q[1], Strategy: Relevance, Limit: 5})
		at := slices.IndexFunc(found, func(h Hit) bool { return h.ID == q[0] })
		if at < 0 {
			t.Logf("not found: %s %q: %s", q[0], q[1], listed(found))
			continue
		}
		recall++
		mrr += 1 / float64(at+1)
	}
	for _, q := range g.noise {
		if found := g.index.Search(Query{Text: q, Strategy: Relevance, Limit: 5}); len(found) > 0 {
			t.Logf("found for %q: %s", q, listed(found))
			noise++
		}
	}
	n := float64(len(g.questions))
	return recall / n, mrr / n, noise / float64(len(g.noise))
}

func listed(hits []Hit) string {
	var b strings.Builder
	for _, h := range hits {
		fmt.Fprintf(&b, "%s %.2f ", h.ID, h.Score)
	}
	return b.String()
}

// Plain questions find their passages by words alone, and questions that nothing answers
// find nothing. The figures stand in docs/retrieval.md.
func TestGoldenQuestions(t *testing.T) {
	t.Parallel()
	g := readGolden(t, "golden.txt", "golden2.txt")
	recall, mrr, noise := g.figures(t)
	t.Logf("%d questions: recall@5 %.3f, MRR %.3f; %d without an answer: %.3f find something", len(g.questions), recall, mrr, len(g.noise), noise)
	if recall < 0.98 || mrr < 0.95 || noise > 0.1 {
		t.Errorf("recall@5 %.3f, MRR %.3f, noise %.3f", recall, mrr, noise)
	}
}
