package app

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/content/file"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/schedule"
	"agentd/internal/execution/session"
	"agentd/internal/execution/session/sessionsql"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
	"agentd/internal/wire/outbound"
)

// buildSessions makes the service of sessions. Runs need it, and it needs runs:
// bindSessions completes it.
func (a *App) buildSessions(kernel resource.Deps, agents *agent.Agents, queue work.Queue, watchers *run.Watchers, used quota.Gate) *session.Service {
	store := sessionsql.New(a.db)
	s := session.New(session.Deps{
		Store: store, Todos: store, Shares: store, Annotations: resource.NewStore(session.AnnotationKind, kernel),
		Agents: agents, Writer: a.db, Queue: queue, Log: runsql.NewEvents(a.db), Hub: a.hub,
		Cursors: kernel.Cursors, Clock: a.clock, CheckURL: outbound.CheckURL, Audit: a.audit, Quota: used,
		Box: a.box, PublicURL: a.public,
	})
	watchers.Add(s.OnRunState)
	return s
}

// attachable gives files to messages.
type attachable struct{ files *file.Service }

// Open implements session.Files.
func (f attachable) Open(ctx context.Context, tenant, id string) (session.Attachment, io.ReadCloser, error) {
	got, content, err := f.files.Open(ctx, tenant, id)
	if err != nil {
		return session.Attachment{}, nil, err
	}
	return session.Attachment{FileID: id, Filename: got.Filename, MimeType: got.MimeType, SizeBytes: got.SizeBytes}, content, nil
}

// bindSessions connects sessions with runs and what is stored, and adds the
// runners of sessions.
func (a *App) bindSessions(s *session.Service, runs *run.Service, stored *storage, runners map[string]*work.Runner) {
	s.Connect(session.Ports{Runs: runs, Files: attachable{stored.files}, Artifacts: stored.artifacts, Cron: todoCron})
	runs.Sessions = s
	runners[session.WorkKind] = work.NewRunner(work.Config{
		Kind: session.WorkKind, Owner: a.node, Queue: s.Queue, Handler: s.Handle, Slots: 4, Lease: lease, Clock: a.clock, Logger: a.log,
	})
	runners[session.TodoWorkKind] = work.NewRunner(work.Config{
		Kind: session.TodoWorkKind, Owner: a.node, Queue: s.Queue, Handler: s.HandleTodo, Slots: 8, Lease: lease, Clock: a.clock, Logger: a.log,
	})
}

// todoCron is session.CronFunc: todos recur by the rules of schedules.
func todoCron(cron, zone string) (func(time.Time) time.Time, error) {
	where := time.UTC
	if zone != "" {
		var err error
		if where, err = time.LoadLocation(zone); err != nil || where == time.Local {
			return nil, errors.New("the time zone is not known")
		}
	}
	at, err := schedule.ParseCron(cron, where)
	if err != nil {
		return nil, err
	}
	return at.Next, nil
}

// public is the address under which clients reach the service.
func (a *App) public() string {
	if url := a.cfg.Server.PublicURL; url != "" {
		return strings.TrimRight(url, "/")
	}
	return "http://" + a.Address()
}
