package textindex

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// cosineOf returns the cosine of two embeddings from their numbers as they are.
func cosineOf(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

func TestVectorsAreBytes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 200 {
		a, b := randomVector(rng, n+1), randomVector(rng, n+1)
		v, w := newVector(a), newVector(b)
		if got, want := v.cosine(w), cosineOf(a, b); math.Abs(got-want) > 0.01 {
			t.Errorf("%d numbers: %.4f, want %.4f", n+1, got, want)
		}
		if got := v.cosine(v); math.Abs(got-1) > 1e-6 {
			t.Errorf("%d numbers: %v is like itself", n+1, got)
		}
		again := make([]float32, len(v.values))
		for i, n := range v.values {
			again[i] = float32(n)
		}
		if !slices.Equal(Quantize(again), v.values) {
			t.Errorf("%d numbers change when they are quantized again", n+1)
		}
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, bad := range [][]float32{nil, {}, {0, 0}, {1, inf}, {nan, 1}, {1, nan}} {
		if v := newVector(bad); v != nil {
			t.Errorf("%v has a direction: %v", bad, v.values)
		}
	}
}

// clustered returns embeddings that lie around some themes, as those of texts do, and
// questions about the themes.
func clustered(n, themes, numbers int) (all, questions [][]float32) {
	rng := rand.New(rand.NewPCG(3, 4))
	near := func(of []float32, spread float64) []float32 {
		v := make([]float32, numbers)
		for i := range v {
			v[i] = of[i] + float32(rng.NormFloat64()*spread)
		}
		return v
	}
	centers := make([][]float32, themes)
	for i := range centers {
		centers[i] = near(make([]float32, numbers), 1)
		questions = append(questions, near(centers[i], 0.8))
	}
	for i := range n {
		all = append(all, near(centers[i%themes], 0.3+rng.Float64()))
	}
	return all, questions
}

// A large index finds by candidates what comparing all vectors finds.
func TestNearestOfMany(t *testing.T) {
	t.Parallel()
	const limit = 10
	all, questions := clustered(10_000, 101, 128)
	x := New()
	x.exact = 0
	for i, v := range all {
		x.Put(Doc{ID: fmt.Sprint(i), Kind: fmt.Sprint(i % 2), Vector: v})
	}
	found, wanted := 0, 0
	for _, q := range questions[:20] {
		type near struct {
			id     string
			cosine float64
		}
		var best []near
		for i, v := range all {
			if i%2 == 1 {
				best = append(best, near{fmt.Sprint(i), cosineOf(q, v)})
			}
		}
		slices.SortFunc(best, func(a, b near) int {
			if a.cosine > b.cosine {
				return -1
			}
			return 1
		})
		hits := x.Search(Query{Text: "x", Vector: q, Strategy: Relevance, Kinds: []string{"1"}, Limit: limit})
		for _, h := range hits {
			// One that is as near as the last within the error of bytes is as good.
			at := slices.IndexFunc(best, func(n near) bool { return n.id == h.ID })
			if at >= 0 && best[at].cosine >= best[limit-1].cosine-0.01 {
				found++
			}
		}
		wanted += limit
	}
	if share := float64(found) / float64(wanted); share < 0.98 {
		t.Errorf("%.3f of the nearest vectors are found", share)
	}
}

func BenchmarkNearest(b *testing.B) {
	for _, numbers := range []int{384, 1536} {
		b.Run(fmt.Sprint(numbers), func(b *testing.B) {
			all, questions := clustered(50_000, 500, numbers)
			x := New()
			for i, v := range all {
				x.Put(Doc{ID: fmt.Sprint(i), Vector: v})
			}
			n := 0
			for b.Loop() {
				x.Search(Query{Text: "x", Vector: questions[n%len(questions)], Strategy: Relevance, Limit: 10})
				n++
			}
			b.ReportMetric(float64(x.Bytes())/float64(x.Len()), "bytes/vector")
		})
	}
}
