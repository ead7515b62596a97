// Package scrape reads the metrics of nodes in Prometheus' text format, and computes from
// two readings what happened between them.
package scrape

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// maxBytes bounds what is read of one node.
const maxBytes = 16 << 20

// Reading is the metrics of some nodes at one moment. The zero Reading has none.
type Reading []*dto.MetricFamily

// Read reads the metrics of a node.
func Read(from io.Reader) (Reading, error) {
	limited := &io.LimitedReader{R: from, N: maxBytes}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(limited)
	switch {
	case limited.N <= 0:
		return nil, fmt.Errorf("the metrics are larger than %d MiB", maxBytes>>20)
	case err != nil:
		return nil, fmt.Errorf("these are no metrics in Prometheus' text format: %w", err)
	}
	return slices.Collect(maps.Values(found)), nil
}

// Labels select series: those that have all of these values.
type Labels map[string]string

func (l Labels) match(m *dto.Metric) bool {
	for name, value := range l {
		if !slices.ContainsFunc(m.GetLabel(), func(p *dto.LabelPair) bool { return p.GetName() == name && p.GetValue() == value }) {
			return false
		}
	}
	return true
}

func (r Reading) each(name string, labels Labels, do func(*dto.Metric)) {
	for _, family := range r {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if labels.match(m) {
				do(m)
			}
		}
	}
}

// Sum returns the sum of counters and gauges, and how many histograms have counted.
func (r Reading) Sum(name string, labels Labels) (sum float64) {
	r.each(name, labels, func(m *dto.Metric) {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() + float64(m.GetHistogram().GetSampleCount())
	})
	return sum
}

// Max returns the largest value of gauges, or of a quantile of summaries where one is
// given; NaN where there is none.
func (r Reading) Max(name string, labels Labels, quantile float64) float64 {
	most := math.NaN()
	r.each(name, labels, func(m *dto.Metric) {
		value := m.GetGauge().GetValue()
		if m.GetSummary() != nil {
			value = math.NaN()
			for _, q := range m.GetSummary().GetQuantile() {
				if q.GetQuantile() == quantile {
					value = q.GetValue()
				}
			}
		}
		if math.IsNaN(most) || value > most {
			most = value
		}
	})
	return most
}

// Values returns the values of a label, sorted.
func (r Reading) Values(name, label string) []string {
	found := map[string]bool{}
	r.each(name, nil, func(m *dto.Metric) {
		for _, p := range m.GetLabel() {
			if p.GetName() == label {
				found[p.GetValue()] = true
			}
		}
	})
	return slices.Sorted(maps.Keys(found))
}

// buckets returns how many samples histograms have at most at each bound.
func (r Reading) buckets(name string, labels Labels) map[float64]float64 {
	counts := map[float64]float64{}
	r.each(name, labels, func(m *dto.Metric) {
		for _, b := range m.GetHistogram().GetBucket() {
			counts[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
	})
	return counts
}

// Quantile returns a quantile of what histograms counted after an earlier reading, in
// their unit, by straight lines between the bounds of their buckets; NaN where they
// counted nothing, and the largest bound where it is beyond.
func (r Reading) Quantile(before Reading, name string, labels Labels, q float64) float64 {
	after, earlier := r.buckets(name, labels), before.buckets(name, labels)
	bounds := slices.Sorted(maps.Keys(after))
	if len(bounds) == 0 {
		return math.NaN()
	}
	count := func(i int) float64 { return max(0, after[bounds[i]]-earlier[bounds[i]]) }
	last := len(bounds) - 1
	wanted := q * count(last)
	if wanted == 0 {
		return math.NaN()
	}
	from, below := 0.0, 0.0
	for i, bound := range bounds {
		if count(i) >= wanted {
			if math.IsInf(bound, 1) {
				return from
			}
			return from + (bound-from)*(wanted-below)/(count(i)-below)
		}
		from, below = bound, count(i)
	}
	return from
}
