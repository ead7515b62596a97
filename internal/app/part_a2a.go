package app

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agentkey"
	"agentd/internal/base/fault"
	"agentd/internal/delivery/webhook"
	"agentd/internal/edge/a2aserver"
	"agentd/internal/execution/responsechain"
	"agentd/internal/execution/run"
	"agentd/internal/teams/a2a"
	"agentd/internal/teams/a2a/a2asql"
	"agentd/internal/wire/webhookhttp"
)

// peers is what agents of other systems reach: tasks, and the cards of agents.
type peers struct {
	tasks  *a2a.Service
	server *a2aserver.Server
}

func newPeers(p *platform, out *egress, agents *agents, execution *execution) (*peers, error) {
	waits, err := p.cfg.Webhooks.Waits()
	if err != nil {
		return nil, fmt.Errorf("AGENTD_WEBHOOK_RETRY_WAITS: %w", err)
	}
	store := a2asql.New(p.db)
	x := &peers{tasks: &a2a.Service{
		Store: store, Runs: execution.runs, Records: execution.runs.Runs, Chains: taskChains{execution.chains}, Writer: p.db, Queue: p.queue,
		Log: execution.events, Hub: p.hub, Cursors: p.cursors, Clock: p.clock, Box: p.box, CheckURL: out.checkURL, PublicURL: p.publicURL,
		Send: pushSender{out.caller(p)}.send, Render: a2aserver.Render, Waits: waits,
	}}
	x.server = &a2aserver.Server{
		Tasks: x.tasks, Agents: agents.agents, PublicURL: p.publicURL, Owner: store.GetTenant, Sign: cardSigner{agents.keys}.sign,
	}
	return x, nil
}

func (x *peers) part(p *platform) part {
	return part{
		name: "a2a", routes: append(x.tasks.Routes(), x.server.Routes()...), endpoints: x.server.Endpoints(),
		workers:  []worker{p.worker(a2a.PushWorkKind, 16, x.tasks.HandlePush)},
		watchers: []watcher{{"a2a", x.tasks.OnRunState}},
	}
}

// cardSigner signs cards with the identities of agents.
type cardSigner struct{ keys *agentkey.Keys }

// sign returns no signature for an agent whose identity was deleted.
func (c cardSigner) sign(ctx context.Context, tenant, agent string, message []byte) (public, signature []byte, err error) {
	public, signature, err = c.keys.Sign(ctx, tenant, agent, message)
	if fault.Is(err, fault.NotFound) {
		return nil, nil, nil
	}
	return public, signature, err
}

// taskChains implements a2a.Chains: the tasks of a context are responses that follow each
// other.
type taskChains struct{ chains *responsechain.Service }

// Link implements a2a.Chains.
func (c taskChains) Link(runID, previous string) run.Admission {
	return c.chains.Make(responsechain.Link{RunID: runID, Previous: previous, Asked: jsontext.Value("{}")})
}

// pushSender sends changes of tasks as webhooks are sent.
type pushSender struct{ caller webhookhttp.Caller }

func (s pushSender) send(ctx context.Context, p a2a.Post) (failure string) {
	return s.caller.Send(ctx, webhook.Request{
		TenantID: p.TenantID, URL: p.URL, Secret: p.Secret, DeliveryID: p.DeliveryID, EventID: p.EventID, EventType: "a2a.task",
		Header: p.Header, Body: p.Body,
	}).Failure
}
