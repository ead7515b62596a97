package app

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/kernel/idempotency"
	"agentd/internal/store/idempotencysql"
)

// buildIdempotency makes the keeper of the answers to writes that clients may
// repeat.
func (a *App) buildIdempotency() *idempotency.Manager {
	kept := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentd_idempotency_answers_total",
		Help: "Answers kept for writes with an Idempotency-Key, by whether that was in the transaction of the write's effect.",
	}, []string{"with_effect"})
	a.metrics.MustRegister(kept)
	keeper := idempotency.NewManager(idempotency.Config{
		Store: idempotencysql.New(a.db), Writer: a.db, Box: a.box, Clock: a.clock, Log: a.log,
		OnStored: func(withEffect bool) { kept.WithLabelValues(strconv.FormatBool(withEffect)).Inc() },
	})
	a.serve(keeper.Serve)
	return keeper
}
