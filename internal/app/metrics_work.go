package app

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/base/lasting"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/tool"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/worksql"
)

const (
	// backlogEvery is how long the figures of the queue are reused: a scrape must not
	// cost more than it tells.
	backlogEvery   = 10 * time.Second
	backlogTimeout = 2 * time.Second
)

// backlog exports what waits in the queue, for each kind of work. The queue is the
// same for all nodes, so that each exports the same figures.
type backlog struct {
	queue         *worksql.Queue
	kinds         []string
	depth, oldest *prometheus.Desc

	mu   sync.Mutex
	at   time.Time
	last map[string]worksql.Backlog
}

// observeQueue registers the metrics of the queue.
func observeQueue(r *prometheus.Registry, queue *worksql.Queue, workers []worker) {
	b := &backlog{
		queue: queue,
		depth: prometheus.NewDesc("agentd_queue_depth",
			"Items of work that are due and that no node has begun, of all nodes together; counted up to 10000.", []string{"kind"}, nil),
		oldest: prometheus.NewDesc("agentd_queue_oldest_seconds",
			"For how long the oldest item that no node has begun is due, of all nodes together.", []string{"kind"}, nil),
	}
	for _, w := range workers {
		b.kinds = append(b.kinds, w.kind)
	}
	r.MustRegister(b)
}

// Describe implements prometheus.Collector.
func (b *backlog) Describe(ch chan<- *prometheus.Desc) {
	ch <- b.depth
	ch <- b.oldest
}

// Collect implements prometheus.Collector. While the database is away there are no
// figures.
func (b *backlog) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.at) > backlogEvery {
		ctx, cancel := context.WithTimeout(context.Background(), backlogTimeout)
		defer cancel()
		b.at, b.last = time.Now(), map[string]worksql.Backlog{}
		for _, kind := range b.kinds {
			found, err := b.queue.GetBacklog(ctx, kind)
			if err != nil {
				break
			}
			b.last[kind] = found
		}
	}
	for kind, found := range b.last {
		ch <- prometheus.MustNewConstMetric(b.depth, prometheus.GaugeValue, float64(found.Depth), kind)
		ch <- prometheus.MustNewConstMetric(b.oldest, prometheus.GaugeValue, found.Oldest.Seconds(), kind)
	}
}

// newLostLeases registers the metric of lost leases.
func newLostLeases(r *prometheus.Registry) *prometheus.CounterVec {
	lost := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentd_leases_lost_total", Help: "Leases that this node found lost: to another node, or with an item that was deleted.",
	}, []string{"kind"})
	r.MustRegister(lost)
	return lost
}

// newGate returns the gate of all runners of this node.
func newGate(p *platform, queue *worksql.Queue) *work.Gate {
	return work.NewGate(p.log, p.db.Ready, func() { queue.LeaveHeld(lease) })
}

// logRefusals has refused writes logged as a state that lasts.
func logRefusals(log *slog.Logger, m sqldb.Metrics) sqldb.Metrics {
	refused := lasting.New(log, "the database refuses writes")
	committed, failed := m.Committed, m.Failed
	m.Committed = func(closures int, took time.Duration) {
		refused.End()
		committed(closures, took)
	}
	m.Failed = func(closures int, err error) {
		refused.Notice("err", err)
		failed(closures, err)
	}
	return m
}

// logSlow counts slow statements by the route that sent them, and logs their text,
// which has placeholders for all values.
func logSlow(log *slog.Logger, r *prometheus.Registry, m sqldb.Metrics) sqldb.Metrics {
	slow := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentd_slow_statements_total",
		Help: "Statements that took half a second or more, by the route that sent them; no route: the server's own work.",
	}, []string{"route"})
	r.MustRegister(slow)
	m.Slow = func(o *txn.Origin, text string, took time.Duration) {
		slow.WithLabelValues(o.Route).Inc()
		log.Warn("a statement was slow", "route", o.Route, "tenant", o.Tenant, "duration_ms", took.Milliseconds(),
			"statement", strings.Join(strings.Fields(text), " "))
	}
	return m
}

// newFireMetrics registers the metric of schedules that fire.
func newFireMetrics(r *prometheus.Registry) func(late time.Duration) {
	fires := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "agentd_schedule_delay_seconds", Help: "How late the fires of schedules started their runs.",
		Buckets: []float64{.1, 1, 5, 15, 60, 300, 3600, 86400},
	})
	r.MustRegister(fires)
	return func(late time.Duration) { fires.Observe(late.Seconds()) }
}

// newToolMetrics registers the metrics of tools. Tools that are not built in have
// one name together, because companies name them.
func newToolMetrics(r *prometheus.Registry, registry *tool.Registry) func(name string, failed bool, took time.Duration) {
	calls := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "agentd_tool_call_seconds", Help: "Time of tool calls, by built-in tool (mcp: all others) and outcome.",
		Buckets: []float64{.001, .01, .1, .5, 1, 5, 15, 60, 300},
	}, []string{"tool", "outcome"})
	r.MustRegister(calls)
	builtin := map[string]bool{}
	for _, name := range registry.Names() {
		builtin[name] = true
	}
	return func(name string, failed bool, took time.Duration) {
		if !builtin[name] {
			name = "mcp"
		}
		outcome := "done"
		if failed {
			outcome = "error"
		}
		calls.WithLabelValues(name, outcome).Observe(took.Seconds())
	}
}
