package app

import (
	"context"
	"fmt"

	"agentd/internal/accounts/usage"
	"agentd/internal/accounts/usage/usagesql"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/notification"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
)

// loadPlans reads the operator's plans.
func (a *App) loadPlans() (err error) {
	if a.plans, err = quota.Load(a.cfg.Tenancy.Plans); err != nil {
		return fmt.Errorf("AGENTD_PLANS: %w", err)
	}
	return nil
}

// buildUsage makes what counts and limits. Events of it go to the subscribers of
// changes.
func (a *App) buildUsage(subscribers *resource.Subscribers, notes *notification.Service, kernel resource.Deps) *usage.Service {
	store := usagesql.New(a.db)
	s := usage.New(usage.Deps{
		Plans: a.plans, Store: store, Writer: a.db, Clock: a.clock, Logger: a.log, Outbox: subscribers, Audit: kernel.Audit,
	})
	subscribers.Subscribe("tell-admins-of-quotas", usage.EventKind, nil, func(ctx context.Context, c resource.Change) error {
		e, err := s.Event(ctx, c.TenantID, c.ID)
		if err != nil {
			return err
		}
		admins, err := store.ListAdmins(ctx, c.TenantID)
		if err != nil {
			return err
		}
		return a.db.Write(ctx, func(tx txn.Tx) error {
			for _, id := range admins {
				if err := notes.Notify(tx, quotaNote(&e, id)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return s
}

// limitStored has what is stored be limited, and counts what it takes to remember.
func limitStored(used *usage.Service, stored *storage, remember *remembering) {
	stored.workspaces.Quota, remember.knowledge.Quota = used, used
	remember.memory.Spent = func(ctx context.Context, tenant, agent string, target model.Target, u model.Usage) {
		used.Beside(ctx, tenant, agent, quota.SourceMemory, target, u)
	}
}

// quotaNote is what an admin is told of an event.
func quotaNote(e *usage.Event, admin string) notification.Notification {
	what := "The plan's " + string(e.Resource)
	source := &notification.Source{Kind: "budget", ID: string(e.Resource)}
	url, then := "/api/v1/usage/quota", "What goes beyond is refused until %s."
	if e.Resource == usage.BudgetResource {
		what, url, then = "The budget", "/api/v1/billing/budget", "Runs and model calls are refused until %s, or until the budget is raised."
	}
	n := notification.Notification{
		TenantID: e.TenantID, UserID: &admin, Type: notification.BudgetWarning, Priority: notification.Warning,
		Title: fmt.Sprintf("%s: %d %% are used", what, e.Percent()), Data: []byte(e.Data()), ActionURL: url, Source: source,
		Message:  fmt.Sprintf("%s: %d %% are used. It is new at %s.", what, e.Percent(), e.ResetsAt.Format("2006-01-02 15:04 MST")),
		DedupKey: "usage/" + e.ID + "/" + admin,
	}
	if e.Type == usage.TypeExceeded {
		n.Type, n.Priority = notification.BudgetExceeded, notification.Critical
		n.Title = what + " is used up"
		n.Message = n.Title + ". " + fmt.Sprintf(then, e.ResetsAt.Format("2006-01-02 15:04 MST"))
	}
	return n
}
