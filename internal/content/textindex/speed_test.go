package textindex

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
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

// A million passages over a hundred bases, as a node with memory for all of them has them:
// what a passage takes, and how long searches of one base after another last.
func BenchmarkManyBases(b *testing.B) {
	const bases, each = 100, 10_000
	g := readGolden(b, "golden.txt", "golden2.txt")
	docs := passages(b, each)
	for b.Loop() {
		before := inUse()
		all := make([]*Index, bases)
		began := time.Now()
		var made sync.WaitGroup
		for half := range 2 {
			made.Go(func() {
				for i := half; i < bases; i += 2 {
					all[i] = New()
					for _, d := range docs {
						all[i].Put(d)
					}
					all[i].Shrink()
				}
			})
		}
		made.Wait()
		b.ReportMetric(bases*each/time.Since(began).Seconds(), "passages/s")
		b.ReportMetric(float64(inUse()-before)/bases/each, "B/passage")
		counted := 0
		for _, x := range all {
			counted += x.Bytes()
		}
		b.ReportMetric(float64(counted)/bases/each, "B/passage-counted")
		var took []time.Duration
		for i := range 20 * bases {
			began := time.Now()
			all[i%bases].Search(Query{Text: g.questions[i%len(g.questions)][1], Strategy: Relevance, Limit: 5})
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
	}
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
