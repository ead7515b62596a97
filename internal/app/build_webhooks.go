package app

import (
	"context"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/accounts/usage"
	"agentd/internal/agents/agent"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/webhook"
	"agentd/internal/delivery/webhook/webhooksql"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/webhookhttp"
)

// maxDispatchers is how many subscriptions this node delivers to at a time.
const maxDispatchers = 512

// buildWebhooks builds the outbox of events and their delivery.
func (a *App) buildWebhooks(queue work.Queue, cursors *page.Cursors, used *usage.Service, changes *resource.Subscribers, runners map[string]*work.Runner) (*webhook.Service, error) {
	waits, err := a.cfg.Webhooks.Waits()
	if err != nil {
		return nil, fmt.Errorf("AGENTD_WEBHOOK_RETRY_WAITS: %w", err)
	}
	allow, err := outbound.ParseAllow(a.cfg.Security.EgressAllow)
	if err != nil {
		return nil, err
	}
	attempts := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "agentd_webhook_attempt_seconds", Help: "Duration of webhook delivery attempts, by success.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
	}, []string{"success"})
	a.metrics.MustRegister(attempts)
	s := webhook.New(webhook.Deps{
		Store: webhooksql.New(a.db), Writer: a.db, Queue: queue, Clock: a.clock, Box: a.box, Cursors: cursors, Audit: a.audit,
		Sender:   webhookhttp.Caller{Client: a.hooks, Clock: a.clock},
		CheckURL: outbound.NewChecker(outbound.Config{Allow: allow}).Check, Quota: used, Waits: waits,
		Observe: func(o webhook.Outcome) {
			attempts.WithLabelValues(strconv.FormatBool(o.Failure == "")).Observe(o.Latency.Seconds())
		},
	})
	a.emitQuotaEvents(s, used, changes)
	a.addRunner(runners, queue, webhook.WorkKind, maxDispatchers, s.Handle)
	a.serve(func(ctx context.Context) { s.Serve(ctx, a.log) })
	return s, nil
}

// agentEvents are the events of actions on agents; any other action is an update.
var agentEvents = map[string]string{resource.Created: "agent.created", resource.Deleted: "agent.deleted"}

// emitAgentEvents returns the hook that emits the events of agents.
func (a *App) emitAgentEvents(hooks *webhook.Service, agents func() *agent.Agents) func(txn.Tx, string, *agent.Agent) error {
	return func(tx txn.Tx, action string, g *agent.Agent) error {
		event, ok := agentEvents[action]
		if !ok {
			event = "agent.updated"
		}
		return hooks.Emit(tx, webhook.Event{TenantID: g.TenantID, Type: event, At: a.clock.Now(), Data: func() (jsontext.Value, error) {
			if action != resource.Deleted {
				return agents().Store().Wire(g)
			}
			return json.Marshal(webhook.AgentDeletedData{AgentID: g.ID, Name: g.Name})
		}})
	}
}

// emitQuotaEvents emits the events of quotas.
func (a *App) emitQuotaEvents(hooks *webhook.Service, used *usage.Service, subscribers *resource.Subscribers) {
	subscribers.Subscribe("emit-quota-events", usage.EventKind, nil, func(ctx context.Context, c resource.Change) error {
		e, err := used.Event(ctx, c.TenantID, c.ID)
		if err != nil {
			return err
		}
		return a.db.Write(ctx, func(tx txn.Tx) error {
			return hooks.Emit(tx, webhook.Event{TenantID: e.TenantID, ID: e.ID, Type: e.Type, At: e.CreatedAt, Data: func() (jsontext.Value, error) {
				return e.Data(), nil
			}})
		})
	})
}
