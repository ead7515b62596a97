package app

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/delivery/live"
	"agentd/internal/delivery/waiting"
	"agentd/internal/execution/run"
	"agentd/internal/insight/evaluation"
	"agentd/internal/insight/evaluation/evaluationsql"
	"agentd/internal/kernel/resource"
	"agentd/internal/teams/mission"
	"agentd/internal/teams/mission/missionsql"
)

// newLive is the stream of what changes. It comes after all kinds of resources.
func newLive(p *platform, delivery *delivery, x *execution, inbox *waiting.Service) part {
	may := func(scope authz.Scope) resource.Access {
		return resource.Access{Scopes: []authz.Scope{scope}, Role: authz.Viewer}
	}
	runs := run.Rows{Service: x.runs}
	s := live.New(live.Deps{
		Hub: p.hub, Clock: p.clock, Log: p.log, Kinds: p.kernel.Kinds, Runs: runs, Sessions: x.sessions,
		Sources: []live.Source{
			{Kind: "run", Readers: may("runs:read"), Row: live.RowOf(runs.Row)},
			{Kind: "approval", Readers: may("runs:read"), Row: live.RowOf(runs.ApprovalRow)},
			{Kind: "session", Readers: may("sessions:read"), Row: live.RowOf(x.sessions.Row)},
			{Kind: "mission", Readers: may("agents:read"), Row: rowOf(missionsql.New(p.db).Get, mission.ViewOf)},
			{Kind: "evaluation", Readers: may("evaluations:read"), Row: rowOf(evaluationsql.New(p.db).Get, evaluation.ViewOf)},
			{Kind: "webhook", Readers: may("webhooks:read"), Row: live.RowOf(delivery.webhooks.Row)},
			{Kind: "notification", Readers: may("notifications:read")},
		},
		Counters: []live.Counter{
			{
				Name: "runs", Kinds: []string{"run"}, Readers: may("runs:read"),
				Count: func(ctx context.Context, tenant, _ string) (any, error) { return runs.CountUnended(ctx, tenant) },
			},
			{
				Name: "inbox", Kinds: []string{"run", "approval", "proposal", "ambassador_request"}, Readers: may("runs:read"),
				Count: func(ctx context.Context, tenant, _ string) (any, error) {
					return inbox.Count(ctx, authz.Caller{TenantID: tenant, Role: authz.Viewer, Scopes: []authz.Scope{"runs:read"}})
				},
			},
			{
				Name: "unread", Kinds: []string{"notification"}, Readers: may("notifications:read"), Personal: true,
				Count: delivery.notifications.CountUnread,
			},
		},
	})
	return part{
		name: "live", routes: append(inbox.Routes(), s.Routes()...), watchers: []watcher{{"live", run.Watcher(p.announce.OnRunState)}},
		services: []service{func() (func(context.Context), error) {
			return func(context.Context) { s.Stop() }, nil
		}},
	}
}
