package textindex

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// passages returns texts of 150 words of the golden set and of made-up ones.
func passages(b *testing.B, n int) []Doc {
	raw, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		b.Fatal(err)
	}
	rng, words := rand.New(rand.NewPCG(1, 2)), strings.Fields(string(raw))
	all := make([]Doc, n)
	for i := range all {
		var text strings.Builder
		for range 100 {
			text.WriteString(words[rng.IntN(len(words))] + " ")
		}
		for range 50 {
			fmt.Fprintf(&text, "w%x ", int(rng.ExpFloat64()*20_000))
		}
		all[i] = Doc{ID: fmt.Sprint(i), Text: text.String()}
	}
	return all
}

func BenchmarkPutProse(b *testing.B) {
	docs := passages(b, 5000)
	for b.Loop() {
		x := New()
		for _, d := range docs {
			x.Put(d)
		}
	}
	b.ReportMetric(float64(len(docs)*b.N)/b.Elapsed().Seconds(), "passages/s")
}

func BenchmarkSearchProse(b *testing.B) {
	x := New()
	for _, d := range passages(b, 50_000) {
		x.Put(d)
	}
	g := readGolden(b, "golden.txt")
	for b.Loop() {
		for _, q := range g.questions {
			x.Search(Query{Text: q[1], Strategy: Relevance, Limit: 5})
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N*len(g.questions)), "ms/search")
}
