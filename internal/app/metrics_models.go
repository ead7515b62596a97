package app

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/kernel/model"
)

// maxModelLabels bounds how many models have series of their own; further ones,
// and those that companies configure, are counted together.
const maxModelLabels = 200

// modelMetrics counts calls of models.
type modelMetrics struct {
	calls  *prometheus.HistogramVec
	tokens *prometheus.CounterVec

	mu    sync.RWMutex
	known map[modelLabels]*modelSeries
}

type modelLabels struct{ provider, model string }

// modelSeries are the series of one model.
type modelSeries struct {
	calls                          map[string]prometheus.Observer // by outcome
	input, output, cached, written prometheus.Counter
}

// observeModels registers the metrics of model calls, and logs those that fail.
func observeModels(r *prometheus.Registry, b *model.Breaker, l *model.Limiter, failures *modelFailures) {
	m := &modelMetrics{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agentd_model_call_seconds",
			Help: "Time of model calls to their last byte, by provider, model and outcome: " +
				"done, refused, failed (no answer), cancelled, not_made (breaker open), limited (a limit of the provider).",
			Buckets: []float64{.1, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"provider", "model", "outcome"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentd_model_tokens_total", Help: "Tokens of chat completions, by provider, model and " +
				"direction (input, output, cached, cache_write); cached ones are input too.",
		}, []string{"provider", "model", "direction"}),
		known: map[modelLabels]*modelSeries{},
	}
	r.MustRegister(m.calls, m.tokens, breakerStates{b, prometheus.NewDesc(
		"agentd_model_breakers_open", "Models of a provider that are left alone because they did not answer.", []string{"provider"}, nil)})
	b.Observe = func(c model.Call) {
		m.observe(c)
		failures.observe(c)
	}
	l.Observe = m.observe
}

func (m *modelMetrics) observe(c model.Call) {
	s := m.series(c.Target)
	s.calls[c.Outcome].Observe(c.Took.Seconds())
	if c.Usage.InputTokens+c.Usage.OutputTokens > 0 {
		s.input.Add(float64(c.Usage.InputTokens))
		s.output.Add(float64(c.Usage.OutputTokens))
		s.cached.Add(float64(c.Usage.CachedTokens))
		s.written.Add(float64(c.Usage.CacheWriteTokens))
	}
}

func (m *modelMetrics) series(t *model.Target) *modelSeries {
	labels := modelLabels{t.Provider, t.Model}
	if t.Guarded {
		labels = modelLabels{"tenant", "other"}
	}
	m.mu.RLock()
	s := m.known[labels]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= maxModelLabels {
		labels = modelLabels{"other", "other"}
	}
	if s := m.known[labels]; s != nil {
		return s
	}
	s = &modelSeries{
		calls:   map[string]prometheus.Observer{},
		input:   m.tokens.WithLabelValues(labels.provider, labels.model, "input"),
		output:  m.tokens.WithLabelValues(labels.provider, labels.model, "output"),
		cached:  m.tokens.WithLabelValues(labels.provider, labels.model, "cached"),
		written: m.tokens.WithLabelValues(labels.provider, labels.model, "cache_write"),
	}
	for _, outcome := range []string{
		model.CallDone, model.CallRefused, model.CallFailed, model.CallCancelled, model.CallNotMade, model.CallLimited,
	} {
		s.calls[outcome] = m.calls.WithLabelValues(labels.provider, labels.model, outcome)
	}
	m.known[labels] = s
	return s
}

// breakerStates exports which providers are left alone.
type breakerStates struct {
	breaker *model.Breaker
	open    *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (s breakerStates) Describe(ch chan<- *prometheus.Desc) { ch <- s.open }

// Collect implements prometheus.Collector.
func (s breakerStates) Collect(ch chan<- prometheus.Metric) {
	for provider, n := range s.breaker.Open() {
		ch <- prometheus.MustNewConstMetric(s.open, prometheus.GaugeValue, float64(n), provider)
	}
}
