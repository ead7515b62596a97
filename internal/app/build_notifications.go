package app

import (
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/notification/notificationsql"
	"agentd/internal/kernel/mail"
	"agentd/internal/kernel/work"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/webhookhttp"
)

// buildNotifications makes what tells people. letters is nil where this
// deployment sends no mail.
func (a *App) buildNotifications(queue work.Queue, letters mail.Outbox) (*notification.Service, error) {
	allow, err := outbound.ParseAllow(a.cfg.Security.EgressAllow)
	if err != nil {
		return nil, err
	}
	store := notificationsql.New(a.db)
	return notification.New(notification.Deps{
		Store: store, Delivery: store, Writer: a.db, Clock: a.clock, Hub: a.hub, Queue: queue, Mail: letters,
		Poster: webhookhttp.Caller{Client: a.hooks, Clock: a.clock}, Box: a.box, Public: a.public, Audit: a.audit,
		CheckURL: func(url string) error { return outbound.CheckSecureURL(url, allow) },
	}), nil
}

// runNotifications adds the runners that deliver.
func (a *App) runNotifications(s *notification.Service, runners map[string]*work.Runner) {
	a.addRunner(runners, s.Queue, notification.FanKind, 4, s.Spread)
	a.addRunner(runners, s.Queue, notification.DeliverKind, 16, s.Deliver)
}
