package significance

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// The expected values are those of published tables and of R: prop.test(correct=FALSE),
// binom.test, fisher.test and p.adjust.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{
		{0, 0, 0, 1}, {0, 10, 0, 0.2775}, {10, 10, 0.7225, 1}, {8, 10, 0.4902, 0.9433}, {81, 263, 0.2553, 0.3662},
	} {
		in := Share(c.k, c.n)
		near(t, "low", in.Low, c.low, 1e-4)
		near(t, "high", in.High, c.high, 1e-4)
	}
}

func TestMean(t *testing.T) {
	t.Parallel()
	if mean, in := Mean(nil); mean != 0 || in != (Interval{}) {
		t.Errorf("of nothing: %v, %v", mean, in)
	}
	few := []float64{0, 0, 1, 1, 1, 0.5, 0.5, 1, 0, 1}
	mean, in := Mean(few)
	near(t, "mean", mean, 0.6, 1e-9)
	// About 1.96 standard errors of 0.14 to each side.
	near(t, "low", in.Low, 0.6-0.26, 0.06)
	near(t, "high", in.High, 0.6+0.26, 0.06)
	if _, again := Mean(few); again != in {
		t.Errorf("it changes: %v, %v", in, again)
	}
	many := make([]float64, manyValues)
	for i := range many {
		many[i] = float64(i % 2)
	}
	mean, in = Mean(many)
	near(t, "mean of many", mean, 0.5, 1e-9)
	near(t, "width of many", in.High-in.Low, 2*1.96*0.5/math.Sqrt(manyValues), 1e-3)
}

func TestFlips(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gained, lost int
		want         float64
	}{{0, 0, 1}, {5, 0, 0.0625}, {0, 6, 0.03125}, {8, 2, 0.109375}, {10, 10, 1}, {60, 20, 8.5698e-06}} {
		near(t, "p", Flips(c.gained, c.lost), c.want, 1e-6)
	}
}

func TestPaired(t *testing.T) {
	t.Parallel()
	near(t, "none", Paired(nil), 1, 0)
	near(t, "no difference", Paired([]float64{0.5, -0.5}), 1, 0)
	// Of 2^6 choices of signs two are as extreme.
	near(t, "all the same way", Paired([]float64{1, 1, 1, 1, 1, 1}), 2.0/64, 1e-12)
	drawn := make([]float64, 40)
	for i := range drawn {
		drawn[i] = 0.1
	}
	if p := Paired(drawn); p > 0.01 {
		t.Errorf("40 differences of one sign: %v", p)
	}
	for i := range drawn {
		drawn[i] *= float64(1 - i%2*2)
	}
	drawn[0] += 0.01
	if p := Paired(drawn); p < 0.5 {
		t.Errorf("40 differences of both signs: %v", p)
	}
	many := make([]float64, manyValues)
	for i := range many {
		many[i] = 1
	}
	near(t, "many of one value", Paired(many), 0, 0)
	many[0] = 0.5
	if p := Paired(many); p > 1e-9 {
		t.Errorf("many: %v", p)
	}
}

func TestShares(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k1, n1, k2, n2 int
		want           float64
	}{
		{0, 0, 1, 2, 1}, {5, 5, 5, 5, 1}, {0, 5, 0, 5, 1}, {3, 4, 1, 4, 0.4857143}, {1, 10, 11, 14, 0.0027594},
	} {
		near(t, "p", Shares(c.k1, c.n1, c.k2, c.n2), c.want, 1e-6)
	}
}

func TestMeans(t *testing.T) {
	t.Parallel()
	near(t, "too few", Means([]float64{1}, []float64{2, 3}), 1, 0)
	near(t, "equal", Means([]float64{1, 3}, []float64{2, 2}), 1, 0)
	near(t, "without spread", Means([]float64{1, 1}, []float64{2, 2}), 0, 0)
	// z = (2.5-4.5)/sqrt(1.6667/4+1.6667/4) = -2.19
	near(t, "apart", Means([]float64{1, 2, 3, 4}, []float64{3, 4, 5, 6}), 0.02846, 1e-4)
}

func TestAdjust(t *testing.T) {
	t.Parallel()
	got := Adjust([]float64{0.01, 0.04, 0.03, 0.005})
	want := []float64{0.03, 0.06, 0.06, 0.02}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(Adjust(nil)) != 0 {
		t.Error("of nothing")
	}
}
