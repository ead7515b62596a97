package app

import (
	"context"
	"fmt"

	"agentd/internal/agents/agent"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/notification"
	"agentd/internal/execution/run"
	"agentd/internal/execution/schedule"
	"agentd/internal/execution/schedule/schedulesql"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
)

// buildSchedules makes the schedules of the agents, which run them through runs.
func (a *App) buildSchedules(agents *agent.Agents, runs *run.Service, notes *notification.Service, changes *resource.Subscribers, runners map[string]*work.Runner) *schedule.Service {
	s := schedule.New(schedule.Deps{
		Store: schedulesql.New(a.db), Agents: agents.Store(), Runs: runs, RunStore: runs.Runs,
		Queue: runs.Queue, Writer: a.db, Clock: a.clock, Cursors: runs.Cursors, Logger: a.log,
		Suspended: a.suspended,
		Alert:     func(tx txn.Tx, alarm schedule.Alarm) error { return notes.Notify(tx, scheduleAlert(alarm)) },
	})
	changes.Subscribe("schedules-follow-agents", "agent", nil, func(ctx context.Context, c resource.Change) error {
		return s.Sync(ctx, c.TenantID, c.ID)
	})
	a.addRunner(runners, runs.Queue, schedule.WorkKind, 8, s.Handle)
	return s
}

// scheduleAlert is what people are told of a schedule's failure.
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
