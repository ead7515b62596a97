package httpapi

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics counts by route pattern, never by path. The series of a route are
// created at its first request.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refused  *prometheus.CounterVec

	streamsRefused prometheus.Counter
}

var statusClasses = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}

func newMetrics(registry *prometheus.Registry, openStreams func() int) *metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	m := &metrics{
		registry: registry,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentd_http_requests_total", Help: "Requests answered, by route, method and class of status.",
		}, []string{"route", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agentd_http_request_duration_seconds", Help: "Time to answer a request, without streams.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"route", "method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "agentd_http_requests_in_flight", Help: "Requests being answered, streams included.",
		}),
	}
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentd_rate_limited_requests_total",
		Help: "Requests refused by a rate limit, by exhausted bucket; failed_credentials: too many failed credentials from one address.",
	}, []string{"bucket"})
	m.streamsRefused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "agentd_http_streams_refused_total", Help: "Event streams refused by the limit of open streams per tenant.",
	})
	registry.MustRegister(m.requests, m.duration, m.inFlight, m.refused, m.streamsRefused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agentd_http_streams_open", Help: "Open event streams.",
	}, func() float64 { return float64(openStreams()) }))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// meters are the series of one route.
type meters struct {
	classes  [len(statusClasses)]prometheus.Counter
	duration prometheus.Observer
}

// of returns a route's series. An empty pattern stands for unmatched requests,
// whose methods could be anything.
func (m *metrics) of(method, pattern string) func() *meters {
	if pattern == "" {
		method, pattern = "other", "unmatched"
	}
	return sync.OnceValue(func() *meters {
		made := &meters{duration: m.duration.WithLabelValues(pattern, method)}
		for i, class := range statusClasses {
			made.classes[i] = m.requests.WithLabelValues(pattern, method, class)
		}
		return made
	})
}

func (m *meters) observe(status int, elapsed time.Duration, stream bool) {
	if i := status/100 - 1; i >= 0 && i < len(m.classes) {
		m.classes[i].Inc()
	}
	if !stream {
		m.duration.Observe(elapsed.Seconds())
	}
}
