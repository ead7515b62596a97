// Package significance tells differences between measurements from chance: intervals of
// shares and means, and tests of two samples. All results are reproducible: where a
// method draws at random, it draws the same each time.
package significance

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Level is the probability by chance below which a difference counts as significant.
const Level = 0.05

// z95 is the quantile of the standard normal distribution for intervals of 95 %.
const z95 = 1.959963984540054

// Interval is where a value lies with a confidence of 95 %.
type Interval struct {
	Low, High float64
}

// Share returns the interval of a share of k in n by Wilson's score method (E. B. Wilson,
// Journal of the American Statistical Association 22, 1927), which holds for few cases and
// for shares of 0 and 1 too. Of no cases nothing is known: 0 to 1.
func Share(k, n int) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	size, p := float64(n), float64(k)/float64(n)
	scale := 1 + z95*z95/size
	centre := (p + z95*z95/(2*size)) / scale
	half := z95 / scale * math.Sqrt(p*(1-p)/size+z95*z95/(4*size*size))
	return Interval{max(0, centre-half), min(1, centre+half)}
}

const (
	// resamples is how many samples a bootstrap and a permutation test draw.
	resamples = 2000
	// manyValues is from how many values on means are taken as normally distributed,
	// which they are by the central limit theorem.
	manyValues = 2000
	// allFlips is up to how many differences all signs are tried instead of drawn ones.
	allFlips = 12
)

// Mean returns the mean of values, and its interval by the percentile bootstrap (B. Efron,
// Annals of Statistics 7, 1979).
func Mean(values []float64) (mean float64, in Interval) {
	n := len(values)
	if n == 0 {
		return 0, Interval{}
	}
	mean, deviation := moments(values)
	if n >= manyValues {
		half := z95 * deviation / math.Sqrt(float64(n))
		return mean, Interval{mean - half, mean + half}
	}
	draw := source()
	means := make([]float64, resamples)
	for i := range means {
		sum := 0.0
		for range n {
			sum += values[draw.IntN(n)]
		}
		means[i] = sum / float64(n)
	}
	slices.Sort(means)
	return mean, Interval{means[resamples*25/1000], means[resamples*975/1000-1]}
}

// source returns a source of random numbers that are the same each time.
func source() *rand.Rand { return rand.New(rand.NewPCG(19, 2026)) }

// moments returns the mean and the standard deviation of a sample.
func moments(values []float64) (mean, deviation float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v
	}
	mean /= max(1, n)
	if n < 2 {
		return mean, 0
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / (n - 1)
	}
	return mean, math.Sqrt(deviation)
}

// Flips returns how probable it is by chance that of the cases that two candidates judge
// differently at least as many fall to one side: the exact test of McNemar (Psychometrika
// 12, 1947). gained cases pass with the second alone, and lost with the first alone.
func Flips(gained, lost int) float64 {
	n, fewer := gained+lost, min(gained, lost)
	if n == 0 {
		return 1
	}
	tail := 0.0
	for i := 0; i <= fewer; i++ {
		tail += math.Exp(logChoose(n, i) - float64(n)*math.Ln2)
	}
	return min(1, 2*tail)
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// Paired returns how probable it is by chance that the mean of differences is as far from
// 0 as it is: Fisher's permutation test, which changes the signs of differences.
func Paired(differences []float64) float64 {
	n := len(differences)
	mean, deviation := moments(differences)
	switch {
	case n == 0 || mean == 0:
		return 1
	case n >= manyValues:
		if deviation == 0 {
			return 0
		}
		return twoSided(mean / (deviation / math.Sqrt(float64(n))))
	}
	sum := 0.0
	for _, d := range differences {
		sum += d
	}
	// A sum of rounded values that equals it is not smaller.
	bound := math.Abs(sum) - 1e-9*float64(n)
	if n <= allFlips {
		return signedSums(differences, bound)
	}
	draw, extreme := source(), 1 // the order that was seen is one of the samples
	for range resamples {
		other := 0.0
		for _, d := range differences {
			if draw.Uint64()&1 == 0 {
				d = -d
			}
			other += d
		}
		if math.Abs(other) >= bound {
			extreme++
		}
	}
	return float64(extreme) / (resamples + 1)
}

// signedSums returns the share of all choices of signs whose sum is as far from 0 as bound.
func signedSums(differences []float64, bound float64) float64 {
	extreme, all := 0, 1<<len(differences)
	for signs := range all {
		sum := 0.0
		for i, d := range differences {
			if signs&(1<<i) != 0 {
				d = -d
			}
			sum += d
		}
		if math.Abs(sum) >= bound {
			extreme++
		}
	}
	return float64(extreme) / float64(all)
}

// Shares returns how probable it is by chance that two shares, of k in n each, differ as
// much as they do: Fisher's exact test.
func Shares(k1, n1, k2, n2 int) float64 {
	n, k := n1+n2, k1+k2
	if n1 == 0 || n2 == 0 || k == 0 || k == n {
		return 1
	}
	all := logChoose(n, k)
	likely := func(i int) float64 { return math.Exp(logChoose(n1, i) + logChoose(n2, k-i) - all) }
	seen, sum := likely(k1), 0.0
	for i := max(0, k-n2); i <= min(k, n1); i++ {
		if p := likely(i); p <= seen*(1+1e-7) {
			sum += p
		}
	}
	return min(1, sum)
}

// Means returns how probable it is by chance that the means of two samples differ as much
// as they do: Welch's test, with the normal distribution in place of Student's, which is
// close from 30 values on.
func Means(a, b []float64) float64 {
	if len(a) < 2 || len(b) < 2 {
		return 1
	}
	meanA, deviationA := moments(a)
	meanB, deviationB := moments(b)
	spread := math.Sqrt(deviationA*deviationA/float64(len(a)) + deviationB*deviationB/float64(len(b)))
	switch {
	case meanA == meanB:
		return 1
	case spread == 0:
		return 0
	}
	return twoSided((meanA - meanB) / spread)
}

func twoSided(z float64) float64 { return math.Erfc(math.Abs(z) / math.Sqrt2) }

// Adjust returns probabilities of several tests so that each can be compared with Level
// although there are several (S. Holm, Scandinavian Journal of Statistics 6, 1979).
func Adjust(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	adjusted, before := make([]float64, len(p)), 0.0
	for rank, i := range order {
		before = max(before, min(1, p[i]*float64(len(p)-rank)))
		adjusted[i] = before
	}
	return adjusted
}
