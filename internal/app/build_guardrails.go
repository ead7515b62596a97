package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/engine"
	"agentd/internal/guardrail"
	"agentd/internal/hookwire"
	"agentd/internal/model"
	"agentd/internal/outbound"
	"agentd/internal/policy"
	"agentd/internal/quota"
	"agentd/internal/resource"
	"agentd/internal/usage"
)

// buildGuardrails makes the guardrails. Their judges use the operator's models,
// their webhooks the guarded client.
func (a *App) buildGuardrails(kernel resource.Deps, models engine.Models, client model.Client, used *usage.Service) *guardrail.Guardrails {
	tokens := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentd_guardrail_judge_tokens_total", Help: "Tokens of the models that judge texts for guardrails.",
	}, []string{"direction"})
	a.metrics.MustRegister(tokens)
	return guardrail.New(kernel, guardrail.Options{
		CheckURL: outbound.CheckURL, Models: models, Client: client,
		Hooks: hookwire.Caller{Client: a.hooks, Clock: a.clock}, Logger: a.log,
		Spent: func(r policy.Run, target model.Target, u model.Usage) {
			used.Beside(context.Background(), r.TenantID, r.AgentID, quota.SourceGuardrail, target, u)
			tokens.WithLabelValues("input").Add(float64(u.InputTokens))
			tokens.WithLabelValues("output").Add(float64(u.OutputTokens))
		},
	})
}
