package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/accounts/usage"
	"agentd/internal/agents/guardrail"
	"agentd/internal/execution/engine"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/webhookhttp"
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
		Hooks: webhookhttp.Caller{Client: a.hooks, Clock: a.clock}, Logger: a.log,
		OnUsage: func(r policy.Run, target model.Target, u model.Usage) {
			used.RecordDirect(context.Background(), r.TenantID, r.AgentID, quota.SourceGuardrail, target, u)
			tokens.WithLabelValues("input").Add(float64(u.InputTokens))
			tokens.WithLabelValues("output").Add(float64(u.OutputTokens))
		},
	})
}
