package textindex

import (
	"fmt"
	"os"
	"path"
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

// readDocuments reads documents with their questions, and cuts the documents as a knowledge
// base does: a piece is found by the name and the headings that it stands under, too.
func readDocuments(t testing.TB, name string) golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	g := golden{index: New()}
	var title string
	var text strings.Builder
	put := func() {
		pieces := Chunk(text.String(), 1000, 200)
		for i, place := range Places(text.String(), pieces) {
			stem := strings.TrimSuffix(title, path.Ext(title))
			g.index.Put(Doc{ID: fmt.Sprintf("%s#%d", title, i), Text: pieces[i] + "\n" + stem + "\n" + strings.Join(place.Headings, "\n")})
		}
		text.Reset()
	}
	for line := range strings.Lines(string(raw)) {
		id, question, _ := strings.Cut(line[1:], "|")
		switch line[0] {
		case '=':
			put()
			title = strings.TrimSpace(line[1:])
		case '\t':
			text.WriteString(line[1:])
		case '?':
			g.questions = append(g.questions, [2]string{strings.TrimSpace(id), strings.TrimSpace(question)})
		case '!':
			g.noise = append(g.noise, strings.TrimSpace(line[1:]))
		}
	}
	put()
	return g
}

// figures asks all questions and returns the share whose passage is among the first
// five, the mean reciprocal rank, and the share of noise that finds something.
func (g *golden) figures(t testing.TB) (recall, mrr, noise float64) {
	for _, q := range g.questions {
		found := g.index.Search(Query{Text: q[1], Strategy: Relevance, Limit: 5})
		at := slices.IndexFunc(found, func(h Hit) bool { return h.ID == q[0] || strings.HasPrefix(h.ID, q[0]+"#") })
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

// Questions over other documents, which were written without looking at what finds them.
func TestGoldenDocuments(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"golden3.txt", "golden4.txt"} {
		g := readDocuments(t, name)
		recall, mrr, noise := g.figures(t)
		t.Logf("%d questions over documents of %s: recall@5 %.3f, MRR %.3f; %d without an answer: %.3f find something",
			len(g.questions), name, recall, mrr, len(g.noise), noise)
		if recall < 0.92 || mrr < 0.88 || noise > 0.1 {
			t.Errorf("recall@5 %.3f, MRR %.3f, noise %.3f", recall, mrr, noise)
		}
	}
}
