package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"agentd/internal/agents/guardrail"
	"agentd/internal/base/txn"
	"agentd/internal/content/file"
	"agentd/internal/content/imagetool"
	"agentd/internal/content/search"
	"agentd/internal/content/search/searchsql"
	"agentd/internal/delivery/notification"
	"agentd/internal/execution/engine"
	"agentd/internal/execution/responsechain"
	"agentd/internal/execution/responsechain/responsechainsql"
	"agentd/internal/execution/review"
	"agentd/internal/execution/review/reviewsql"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/schedule"
	"agentd/internal/execution/schedule/schedulesql"
	"agentd/internal/execution/session"
	"agentd/internal/execution/session/sessionsql"
	"agentd/internal/kernel/resource"
)

// maxRuns is how many runs a node drives at once. They mostly wait for
// models; further ones are queued for any node.
const maxRuns = 4096

// execution is runs, what starts them, and what they belong to.
type execution struct {
	watchers  *run.Watchers
	events    run.DraftLog
	engine    *engine.Engine
	runner    worker // of the engine
	runs      *run.Service
	sessions  *session.Service
	chains    *responsechain.Service
	schedules *schedule.Service
	search    *search.Service
	review    *review.Service
}

// past reads what runs did.
func (x *execution) past() run.Past { return run.Past{Runs: x.runs.Runs, Agents: x.runs.Agents} }

func newExecution(
	p *platform, models *models, accounts *accounts, delivery *delivery, content *content, tools *tools, agents *agents,
	permitted *permissions, connected *integrations, machines *machines,
) *execution {
	var redaction run.Redaction = accounts.tenants.Redactor
	store, sessionStore := redaction.Store(runsql.New(p.db)), sessionsql.New(p.db)
	x := &execution{
		watchers: &run.Watchers{}, events: redaction.Log(runsql.NewEvents(p.db)),
		chains: &responsechain.Service{Store: responsechainsql.New(p.db), Writer: p.db, Clock: p.clock, Audit: p.audit},
		search: search.New(search.Deps{
			Store: searchsql.New(p.db), Runs: store, Texts: runsql.NewTexts(p.db), Agents: agents.agents.Store(), Sessions: sessionStore,
			Writer: p.db, Queue: p.queue, Clock: p.clock, Logger: p.log, Lease: lease,
		}),
	}
	x.sessions = session.New(session.Deps{
		Store: sessionStore, Todos: sessionStore, Shares: sessionStore, Clients: sessionsql.NewClients(p.db),
		Annotations: resource.NewStore(session.AnnotationKind, p.kernel),
		Agents:      agents.agents, Writer: p.db, Queue: p.queue, Log: x.events, Hub: p.hub,
		Cursors: p.cursors, Clock: p.clock, CheckURL: p.kernel.Egress, Audit: p.audit, Quota: accounts.usage,
		Box: p.box, PublicURL: p.publicURL, OnChange: func(tx txn.Tx, tenant, id string) error {
			p.announce.SessionChanged(tx, tenant, id)
			return x.search.SessionChanged(tx, tenant, id)
		}, ProviderOf: models.catalogue.ProviderOf,
	})
	metrics := newRunMetrics(p.metrics, tools.registry)
	x.engine = engine.New(engine.Config{
		Writer: p.db, Runs: store, Log: x.events, Queue: p.queue, Hub: p.hub, Agents: agents.source,
		Models: models.resolver, Client: models.client, Limits: models.limiter, Counter: models.wire, Tools: tools.registry,
		Gate: guardrail.Gate{All: agents.guardrails, Platform: p.config.PlatformGuardrails}, Governor: permitted.governor(),
		Remote: remoteTools{agents.servers, connected.service}, Machines: machines.bridge,
		Memory: content.memory, Conversations: x.sessions, Responses: x.chains, Artifacts: content.artifacts,
		Watchers: x.watchers, Meter: accounts.usage, Suspended: accounts.tenants.HeldBack, Violated: delivery.webhooks.Violated,
		Redaction: redaction,
		Images:    &imagetool.Maker{Models: models.catalogue, Client: models.limiter, Tools: tools.registry},
		Skills:    newSkills(content, tools, agents), Caps: p.config.Caps,
		MaxSteps: func() int64 { return p.config.RunDefaults().MaxSteps }, FlushEvery: p.config.SnapshotEvery,
		Clock: p.clock, Logger: p.log, Node: p.node, Lease: lease, Tracer: p.tracer("agentd/engine"), Observer: metrics,
	})
	observeLoad(p.metrics, x.engine, p.hub)
	observeSearch(p.metrics, x.search)
	x.runs = &run.Service{
		Runs: store, Writer: p.db, Queue: p.queue, Log: x.events, Hub: p.hub, Agents: agents.source, Sessions: x.sessions,
		Starter: x.engine, Cursors: p.cursors, Clock: p.clock, WorkKind: engine.WorkKind, Audit: p.audit, Watchers: x.watchers,
		Meter: accounts.usage, Artifacts: content.artifacts.Of, CostCap: permitted.costCap(), Names: runNames{agents.agents, accounts.identity},
		Models: models.resolver, Files: attachableFiles{content.files, p.attachBounds},
		Redaction: redaction, OnApproval: p.announce.ApprovalDecided, Closed: p.disk.refuse,
	}
	x.schedules = schedule.New(schedule.Deps{
		Store: schedulesql.New(p.db), Agents: agents.agents.Store(), Runs: x.runs, RunStore: store,
		Queue: p.queue, Writer: p.db, Clock: p.clock, Cursors: p.cursors, Logger: p.log, Suspended: suspended(p),
		OnFire: newFireMetrics(p.metrics),
		Alert: func(tx txn.Tx, alarm schedule.Alarm) error {
			return delivery.notifications.Notify(tx, scheduleAlert(alarm))
		},
	})
	x.runner = p.workerOf(engine.WorkKind, p.config.MaxRuns, x.engine.Handle)
	x.engine.Connect(x.runner.runner, run.Carried{Service: x.runs})
	x.sessions.Connect(session.Ports{
		Runs: x.runs, Files: attachableFiles{content.files, p.attachBounds}, Artifacts: content.artifacts, Cron: todoCron,
		CheckWorkspace: content.workspaces.Check,
	})
	x.review = &review.Service{
		Store: reviewsql.New(p.db), Runs: store, Starter: x.runs, Log: x.events, AuditLog: p.audit.Store, Audit: p.audit,
		Session: func(ctx context.Context, tenant, id string) error {
			_, err := sessionStore.Get(ctx, tenant, id)
			return err
		},
		Writer: p.db, Cursors: p.cursors, Clock: p.clock, WorkKind: engine.WorkKind,
	}
	return x
}

func (x *execution) part(p *platform) part {
	return part{
		name: "execution",
		routes: slices.Concat(x.runs.Routes(), x.past().Routes(), x.sessions.Routes(), x.schedules.Routes(), x.search.Routes(),
			x.review.Routes()),
		workers: []worker{
			x.runner,
			p.worker(run.CancelWorkKind, 8, x.runs.HandleCancel),
			p.worker(session.WorkKind, 4, x.sessions.Handle),
			p.worker(session.TodoWorkKind, 8, x.sessions.HandleTodo),
			p.worker(schedule.WorkKind, 8, x.schedules.Handle),
			p.worker(search.WorkKind, 4, x.search.Handle),
		},
		watchers: []watcher{
			{"families", x.runs.OnRunState},
			{"sessions", x.sessions.OnRunState}, {"schedules", x.schedules.OnRunState}, {"search", x.search.OnRunState},
		},
		subscribers: []subscriber{
			onAgentDeleted("end-runs-of-deleted-agents", func(ctx context.Context, c agentChange) error {
				return x.runs.AgentDeleted(ctx, c.TenantID, c.ID)
			}),
			{"schedules-follow-agents", "agent", nil, func(ctx context.Context, c agentChange) error {
				return x.schedules.Sync(ctx, c.TenantID, c.ID)
			}},
			{"search-follows-agents", "agent", nil, x.search.AgentChanged},
		},
		services: []service{background(x.search.Serve), background(x.engine.Serve), background(x.schedules.Serve)},
	}
}

// attachableFiles implements run.Files.
type attachableFiles struct {
	files  *file.Service
	bounds func() run.AttachBounds
}

// AttachBounds implements run.Files.
func (f attachableFiles) AttachBounds() run.AttachBounds { return f.bounds() }

// Open implements run.Files.
func (f attachableFiles) Open(ctx context.Context, tenant, id string) (run.Attachment, io.ReadCloser, error) {
	got, opened, err := f.files.Open(ctx, tenant, id)
	if err != nil {
		return run.Attachment{}, nil, err
	}
	return run.Attachment{FileID: id, Filename: got.Filename, MimeType: got.MimeType, SizeBytes: got.SizeBytes}, opened, nil
}

// todoCron is session.CronFunc: todos recur by the rules of schedules.
func todoCron(cron, zone string) (func(time.Time) time.Time, error) {
	location := time.UTC
	if zone != "" {
		var err error
		if location, err = time.LoadLocation(zone); err != nil || location == time.Local {
			return nil, errors.New("the time zone is not known")
		}
	}
	times, err := schedule.ParseCron(cron, location)
	if err != nil {
		return nil, err
	}
	return times.Next, nil
}

// scheduleAlert is the notification of a scheduled run that failed.
func scheduleAlert(a schedule.Alarm) notification.Notification {
	n := notification.Notification{
		TenantID: a.TenantID, Type: notification.SystemAlert, Title: "A scheduled run failed", Message: a.Sentence,
		Priority: notification.Warning, ActionURL: "/api/v1/agents/" + a.AgentID + "/schedule",
		Source:   &notification.Source{Kind: "agent", ID: a.AgentID},
		DedupKey: fmt.Sprintf("schedule.failed/%s/%d", a.AgentID, a.At.UnixMicro()),
	}
	if a.Paused {
		n.Title, n.Priority = "A schedule was paused because its run failed", notification.Critical
	}
	return n
}
