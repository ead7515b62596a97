package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"agentd/internal/content/search"
	"agentd/internal/execution/engine"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
)

// observeWrites registers the metrics of the database's writer.
func observeWrites(r *prometheus.Registry) sqldb.Metrics {
	took := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "agentd_commit_duration_seconds", Help: "Time of a commit, from the start of its first write.",
		Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .05, .25, 1, 5},
	})
	held := prometheus.NewSummary(prometheus.SummaryOpts{
		Name:       "agentd_writer_held_seconds",
		Help:       "For how long a commit had the writer, in the last minutes: the 99th percentile, and the longest (1).",
		Objectives: map[float64]float64{.99: .001, 1: 0}, MaxAge: 5 * time.Minute,
	})
	writes := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "agentd_writes_total", Help: "Writes that were committed; several share a commit on SQLite.",
	})
	failed := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "agentd_writes_failed_total", Help: "Writes that the database refused: locked, full or gone.",
	})
	r.MustRegister(took, held, writes, failed)
	return sqldb.Metrics{
		Committed: func(closures int, d time.Duration) {
			writes.Add(float64(closures))
			took.Observe(d.Seconds())
			held.Observe(d.Seconds())
		},
		Failed: func(closures int, _ error) { failed.Add(float64(closures)) },
	}
}

// observeSearch registers the metric of the search's index.
func observeSearch(r *prometheus.Registry, s *search.Service) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agentd_search_lag_seconds", Help: "For how long the oldest run has ended that this node is about to index for the search.",
	}, func() float64 { return s.Lag().Seconds() }))
}

// newRunMetrics registers the metrics of runs.
func newRunMetrics(r *prometheus.Registry, tools *tool.Registry) engine.Observer {
	ended := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "agentd_run_duration_seconds", Help: "Time from a run's creation to its end, by final status.",
		Buckets: []float64{.01, .1, .5, 1, 5, 15, 60, 300, 1800, 7200},
	}, []string{"status"})
	recovered := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "agentd_runs_recovered_total", Help: "Runs that continued after their worker had died.",
	})
	killed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentd_steps_killed_total", Help: "Steps that were given up because the process died during them.",
	}, []string{"type"})
	r.MustRegister(ended, recovered, killed)
	observers := map[run.Status]prometheus.Observer{}
	for _, s := range run.Statuses {
		if s.Final() {
			observers[s] = ended.WithLabelValues(string(s))
		}
	}
	return engine.Observer{
		RunEnded:   func(s run.Status, took time.Duration) { observers[s].Observe(took.Seconds()) },
		Recover:    recovered.Inc,
		StepKilled: func(kind run.StepType) { killed.WithLabelValues(string(kind)).Inc() },
		ToolDone:   newToolMetrics(r, tools),
	}
}

// observeLoad registers the gauges of this node and of its process.
func observeLoad(r *prometheus.Registry, eng *engine.Engine, hub *event.Hub) {
	active := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agentd_runs_active", Help: "Runs that this node drives.",
	}, func() float64 { return float64(eng.Active()) })
	readers := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agentd_event_readers", Help: "Readers of live events on this node.",
	}, func() float64 { return float64(hub.Readers()) })
	r.MustRegister(active, readers, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}
