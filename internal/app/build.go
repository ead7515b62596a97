package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/signin"
	"agentd/internal/accounts/tenantadmin"
	"agentd/internal/agents/agent"
	"agentd/internal/agents/guardrail"
	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/config"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/commerce/customer"
	"agentd/internal/content/imagetool"
	"agentd/internal/delivery/notification"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/engine"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/schedule"
	"agentd/internal/kernel/mail"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
	"agentd/internal/kernel/work"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/worksql"
	"agentd/internal/wire/openaiclient"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/webhookhttp"
)

const (
	// signalWork wakes the runners of every node; the key is the kind of work.
	signalWork = "work"
	// signalCredentials tells every node of credentials that changed; the key is
	// identity's own.
	signalCredentials = "credentials"
)

// build makes the parts and connects them.
func (a *App) build(ctx context.Context) error {
	cursors := page.NewCursors(a.box.Derive("cursors"))
	queue := worksql.New(a.db, a.clock, func(kind string) { a.hub.Signal(signalWork, kind) })
	if _, err := queue.Reclaim(ctx, a.node); err != nil {
		return err
	}
	runners := map[string]*work.Runner{}
	subscribers := resource.NewSubscribers(queue, a.db, a.clock)
	tenants, err := a.buildTenants(ctx, queue, cursors)
	if err != nil {
		return err
	}
	kernel := resource.Deps{
		Backend: resourcesql.New(a.db), Writer: a.db, Outbox: subscribers,
		Cursors: cursors, Clock: a.clock, Box: a.box, Audit: a.audit,
	}
	models, client, err := a.buildModels()
	if err != nil {
		return err
	}
	post, notes, err := a.buildPost(queue, runners)
	if err != nil {
		return err
	}
	stored := a.buildStorage(cursors)
	used := a.buildUsage(subscribers, notes, kernel)
	meterTenants(tenants, used)
	hooks, err := a.buildWebhooks(queue, cursors, used, subscribers, runners)
	if err != nil {
		return err
	}
	remember := a.newRemembering(kernel, queue, stored.files)
	limitStored(used, stored, remember)
	sensors := a.buildSensors(cursors)
	tools, err := a.buildTools(slices.Concat(stored.workspaces.Tools(), remember.tools(), []tool.Tool{notes.Tool(), sensors.Tool()})...)
	if err != nil {
		return err
	}
	var agents *agent.Agents
	servers, err := a.buildMCP(kernel, func() *agent.Agents { return agents }, tools.Registry)
	if err != nil {
		return err
	}
	agents = agent.New(kernel, agent.Options{
		DefaultModel: a.defaultModel(), Tools: tools.Names(), CheckURL: outbound.CheckURL, Workspaces: stored.placement,
		CheckGuardrails: guardrail.CheckSettings, CheckSchedule: schedule.Check, CheckMCP: servers.CheckField,
		KnowledgeBase: remember.knowledge.CheckTx, Quota: used, Told: a.tellOfAgents(hooks, func() *agent.Agents { return agents }),
	})
	guardrails := a.buildGuardrails(kernel, models, client, used)
	a.buildGateway(models, client, used, agents)

	source := run.AgentSource{Agents: agents}
	store, log := runsql.New(a.db), runsql.NewEvents(a.db)
	watchers := &run.Watchers{}
	sessions := a.buildSessions(kernel, agents, queue, watchers, used)
	eng := engine.New(engine.Config{
		Writer: a.db, Runs: store, Log: log, Queue: queue, Hub: a.hub, Agents: source,
		Models: models, Client: client, Tools: tools.Registry, Gate: guardrail.Gate{All: guardrails}, Remote: servers,
		Memory: remember.memory, Conversations: sessions, Responses: a.responses(), Artifacts: stored.artifacts, Watchers: watchers, Meter: used,
		Suspended: tenants.HoldBack, Violated: hooks.Violated,
		Images: &imagetool.Maker{Models: a.models, Client: a.breaker, Tools: tools.Registry},
		Clock:  a.clock, Logger: a.log, Node: a.node, Lease: lease, Tracer: tracer(a.cfg.Observability, "agentd/engine"),
	})
	eng.Observer = observe(a.metrics, eng, a.hub)
	runs := &run.Service{
		Runs: store, Writer: a.db, Queue: queue, Log: log, Hub: a.hub, Agents: source,
		Starter: eng, Cursors: cursors, Clock: a.clock, WorkKind: engine.WorkKind, Audit: a.audit, Watchers: watchers, Meter: used, Artifacts: stored.artifacts.Of,
	}
	endRuns(runs, subscribers)
	bindSensors(sensors, runs, agents, subscribers)
	schedules := a.buildSchedules(agents, runs, notes, subscribers, runners)
	watchers.Add(schedules.OnRunState)
	storedRoutes := stored.connect(agents, store, subscribers)
	connectMCP(servers, runs, subscribers)
	members := a.buildMembers(cursors, agents, notes, post)
	signIn, err := a.buildSignIn(queue, post, a.audit, members, runners)
	if err != nil {
		return err
	}
	a.addRunner(runners, queue, engine.WorkKind, maxRuns, eng.Handle)
	a.addRunner(runners, queue, resource.WorkKind, 8, subscribers.Deliver)
	a.addRunner(runners, queue, tenantadmin.WorkKind, 2, tenants.Handle)
	remember.connect(agents, store, models, client, watchers, subscribers, runners)
	watchers.Add(hooks.OnRunState)
	watchers.Add(notes.OnRunState) // the last: what others tell locks the same row as this
	a.bindSessions(sessions, runs, stored, runners)
	a.runNotifications(notes, runners)
	found := a.buildSearch(agents, runs, sessions, watchers, subscribers, runners)
	eng.Bind(runners[engine.WorkKind], runs)
	a.serve(eng.Serve)
	if err := a.startRunners(runners); err != nil {
		return err
	}

	a.routes = slices.Concat(
		a.people.Routes(), members.Routes(), signIn.Routes(), agents.Routes(), resource.Routes(resource.NewStore(customer.Customers, kernel)), guardrails.Routes(), runs.Routes(), remember.routes(),
		tools.bind(a, runs, agents), sessions.Routes(), schedules.Routes(), sensors.Routes(), notes.Routes(), servers.Routes(), storedRoutes, a.audit.Routes(), tenants.Routes(), used.Routes(), found.Routes(), hooks.Routes(), a.modelRoutes(),
	)
	a.raw = append(a.compatible(runs, agents, source, log), a.mcpEndpoint(servers, runs, agentTools{catalogue{agents}}, source, log)...)
	return a.buildServer(signIn)
}

// endRuns has runs end with their agents.
func endRuns(runs *run.Service, changes *resource.Subscribers) {
	changes.Subscribe("end-runs-of-deleted-agents", "agent", []string{resource.Deleted}, func(ctx context.Context, c resource.Change) error {
		return runs.AgentDeleted(ctx, c.TenantID, c.ID)
	})
}

// buildServer makes the edge for the routes that there are.
func (a *App) buildServer(signIn *signin.Service) error {
	limiter, proxies, err := a.buildLimits()
	if err != nil {
		return err
	}
	a.server, err = httpapi.New(httpapi.Config{
		Routes: a.routes, Raw: a.raw, Auth: a.people, Ready: a.db.Ready, Idempotency: a.buildIdempotency(),
		Limiter: limiter, Proxies: proxies, Fresh: signIn.Fresh, TenantStreams: a.cfg.Server.StreamsPerTenant, SelfTest: a.hub.Echo,
		Log: a.log, Metrics: a.metrics, Tracer: tracer(a.cfg.Observability, "agentd/http"), PublicURL: a.cfg.Server.PublicURL,
	})
	return err
}

// buildTenants makes what knows whose requests are whose, and what they may.
func (a *App) buildTenants(ctx context.Context, queue work.Queue, cursors *page.Cursors) (*tenantadmin.Service, error) {
	a.buildAudit(cursors)
	if err := a.loadPlans(); err != nil {
		return nil, err
	}
	if err := a.buildPeople(ctx); err != nil {
		return nil, err
	}
	if err := a.buildOutbound(); err != nil {
		return nil, err
	}
	return a.buildTenancy(ctx, queue, cursors)
}

// buildPost makes what tells people things.
func (a *App) buildPost(queue work.Queue, runners map[string]*work.Runner) (*mail.Post, *notification.Service, error) {
	post, err := a.buildMail(queue, runners)
	if err != nil {
		return nil, nil, err
	}
	notes, err := a.buildNotifications(queue, post)
	return post, notes, err
}

// addRunner makes the runner of a kind of work on this node.
func (a *App) addRunner(runners map[string]*work.Runner, queue work.Queue, kind string, slots int, handle work.Handler) {
	runners[kind] = work.NewRunner(work.Config{
		Kind: kind, Owner: a.node, Queue: queue, Handler: handle, Slots: slots, Lease: lease, Clock: a.clock, Logger: a.log,
	})
}

// startRunners starts them, and wakes them when work of their kind is due.
func (a *App) startRunners(runners map[string]*work.Runner) error {
	a.onStop(stopper(a.hub.OnSignal(signalWork, func(kind string) {
		if r := runners[kind]; r != nil {
			r.Wake()
		}
	})))
	for _, r := range runners {
		if err := r.Start(); err != nil {
			return err
		}
		a.onStop(func(ctx context.Context) {
			if err := r.Stop(ctx); err != nil {
				a.log.Warn("work did not stop in time; it goes on at the next start", "err", err)
			}
		})
	}
	return nil
}

func (a *App) buildPeople(ctx context.Context) (err error) {
	a.people = identity.New(identity.Config{
		DB: a.db, Store: identitysql.New(a.db), Clock: a.clock, Log: a.log, Box: a.box, Audit: a.audit, Plans: a.plans,
		Hint: func(hint string) { a.hub.Signal(signalCredentials, hint) },
	})
	a.onStop(stopper(a.hub.OnSignal(signalCredentials, a.people.Invalidate)))
	if a.grant, a.first, err = a.people.Tenants.Bootstrap(ctx, a.cfg.Security.OwnerKey); err != nil {
		return err
	}
	a.people.Start()
	a.onStop(stopper(a.people.Stop))
	return nil
}

// buildOutbound makes the ways out for calls whose address a tenant chooses.
func (a *App) buildOutbound() error {
	allow, err := outbound.ParseAllow(a.cfg.Security.EgressAllow)
	if err != nil {
		return fmt.Errorf("AGENTD_EGRESS_ALLOW: %w", err)
	}
	if text := allow.String(); text != "" {
		a.log.Warn("calls to addresses that tenants choose may reach these private ones", "allowed", text)
	}
	a.guarded = outbound.New(outbound.Config{Allow: allow})
	a.onStop(stopper(a.guarded.Close))
	a.hooks = outbound.New(webhookhttp.ClientConfig(allow))
	a.onStop(stopper(a.hooks.Close))
	return nil
}

// buildModels makes the catalogue of models and the client that calls them.
// Tenants' endpoints are reached through the guarded client only.
func (a *App) buildModels() (engine.Models, modelproxy.Client, error) {
	c := a.cfg.Models
	var providers []model.Provider
	if c.Providers != "" {
		file, err := os.ReadFile(c.Providers)
		if err != nil {
			return nil, nil, fmt.Errorf("AGENTD_PROVIDERS: %w", err)
		}
		if providers, err = model.ParseProviders(file); err != nil {
			return nil, nil, fmt.Errorf("AGENTD_PROVIDERS: %w", err)
		}
	}
	if c.BaseURL != "" {
		providers = append([]model.Provider{{Name: model.DefaultProvider, BaseURL: c.BaseURL, APIKey: c.APIKey}}, providers...)
	}
	var err error
	if a.models, err = model.NewCatalogue(providers, c.Model); err != nil {
		return nil, nil, err
	}
	if err := a.checkProxyModels(); err != nil {
		return nil, nil, err
	}
	operator := openaiclient.NewTransport()
	a.onStop(stopper(operator.CloseIdleConnections))
	a.wire = openaiclient.New(openaiclient.Config{Operator: operator, Guarded: a.guarded.Transport(), Tracer: tracer(a.cfg.Observability, "agentd/model")})
	a.breaker = &model.Breaker{Next: a.wire, Clock: a.clock}
	a.embedder = embedderOf(c, a.wire, a.breaker)
	models, err := a.buildResolver()
	return models, model.Router{Wire: a.breaker, Forwards: a.breaker}, err
}

// defaultModel is what agents use that name no model.
func (a *App) defaultModel() agent.ModelConfig {
	if ref := a.models.Default(); ref != "" {
		return agent.ModelConfig{Provider: model.OpenAICompat, ModelRef: ref}
	}
	return agent.Echo
}

// serve runs a service for as long as the app runs.
func (a *App) serve(service func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		service(ctx)
	}()
	a.onStop(func(context.Context) {
		cancel()
		<-done
	})
}

func (a *App) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if a.listener, err = lc.Listen(ctx, "tcp", a.cfg.Server.Listen); err != nil {
		return fmt.Errorf("AGENTD_LISTEN: %w", err)
	}
	address := a.listener.Addr().String()
	a.bound.Store(&address)
	go func() {
		if err := a.server.Serve(a.listener); err != nil {
			a.failed <- err
		}
	}()
	a.onStop(func(ctx context.Context) {
		if err := a.server.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
			a.log.Warn("some requests had to be cut off", "err", err)
		}
	})
	return nil
}

func stopper(f func()) func(context.Context) { return func(context.Context) { f() } }

// Routes gives what the server serves, for the OpenAPI golden.
func (a *App) Routes() ([]route.Route, []httpapi.Raw) { return a.routes, a.raw }

// tracer makes the spans of a part; nil where nobody takes them.
func tracer(c config.Observability, part string) trace.Tracer {
	if c.OTLPEndpoint == "" {
		return nil
	}
	return otel.Tracer(part)
}
