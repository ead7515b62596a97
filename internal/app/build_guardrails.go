package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/engine"
	"agentd/internal/guardrail"
	"agentd/internal/hookwire"
	"agentd/internal/model"
	"agentd/internal/outbound"
	"agentd/internal/policy"
	"agentd/internal/resource"
)

// buildGuardrails makes the guardrails. Their judges use the operator's models,
// their webhooks the guarded client.
func (a *App) buildGuardrails(kernel resource.Deps, models engine.Models, client model.Client) *guardrail.Guardrails {
	tokens := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentd_guardrail_judge_tokens_total", Help: "Tokens of the models that judge texts for guardrails.",
	}, []string{"direction"})
	a.metrics.MustRegister(tokens)
	return guardrail.New(kernel, guardrail.Options{
		CheckURL: outbound.CheckURL, Models: models, Client: client,
		Hooks: hookwire.Caller{Transport: a.guarded.Transport(), Clock: a.clock}, Logger: a.log,
		Spent: func(_ policy.Run, _ model.Target, u model.Usage) {
			tokens.WithLabelValues("input").Add(float64(u.InputTokens))
			tokens.WithLabelValues("output").Add(float64(u.OutputTokens))
		},
	})
}
