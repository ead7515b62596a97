package app

import (
	"context"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/accounts/usage"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/live"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/notification/notificationsql"
	"agentd/internal/delivery/webhook"
	"agentd/internal/delivery/webhook/webhooksql"
	"agentd/internal/kernel/mail"
	"agentd/internal/kernel/resource"
	"agentd/internal/wire/smtpmail"
)

// maxReceivers is how many receivers of webhooks this node sends to at a time.
const maxReceivers = 512

// delivery is how events leave the platform: letters, notifications, webhooks.
type delivery struct {
	mail          *mail.Post
	notifications *notification.Service
	webhooks      *webhook.Service
}

func newDelivery(p *platform, out *egress, accounts *accounts) (*delivery, error) {
	d := &delivery{}
	var err error
	if d.mail, err = newMail(p); err != nil {
		return nil, err
	}
	store := notificationsql.New(p.db)
	d.notifications = notification.New(notification.Deps{
		Store: store, Delivery: store, Writer: p.db, Clock: p.clock, Hub: p.hub, Queue: p.queue, Mail: d.mail,
		Poster: out.caller(p), Box: p.box, Public: p.publicURL, Audit: p.audit,
		Company: func(ctx context.Context, tenant string) string {
			name, _ := accounts.identity.NamesOf(ctx, tenant, "")
			return name
		},
		CheckURL: out.checkSecureURL,
		OnChange: func(tx txn.Tx, c notification.Change) {
			p.announce.Tx(tx, c.TenantID, live.Change{Kind: "notification", ID: c.ID, Op: c.Op, User: c.UserID, Row: c.Row})
		},
	})
	d.webhooks = newWebhooks(p, out, accounts)
	return d, nil
}

func (d *delivery) part(p *platform, accounts *accounts) part {
	return part{
		name:   "delivery",
		routes: append(d.notifications.Routes(), d.webhooks.Routes()...),
		workers: []worker{
			p.workerWithBackoff(mail.WorkKind, 4, d.mail.Handle, mail.Backoff),
			p.worker(webhook.WorkKind, maxReceivers, d.webhooks.Handle),
			p.worker(notification.FanOutKind, 4, d.notifications.FanOut),
			p.worker(notification.DeliverKind, 16, d.notifications.Deliver),
		},
		watchers: []watcher{{"webhooks", d.webhooks.OnRunState}, {"notifications", d.notifications.OnRunState}},
		subscribers: []subscriber{
			{"tell-admins-of-quotas", usage.EventKind, nil, d.notifyAdmins(p, accounts)},
			{"emit-quota-events", usage.EventKind, nil, d.emitQuotaEvent(p, accounts)},
		},
		services: []service{background(func(ctx context.Context) { d.webhooks.Serve(ctx, p.log) })},
	}
}

// newMail makes the outbox of letters.
func newMail(p *platform) (*mail.Post, error) {
	letters := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentd_mail_attempts_total", Help: "Attempts at sending letters, by outcome: sent, delayed (tried again) or dropped.",
	}, []string{"outcome"})
	p.metrics.MustRegister(letters)
	for _, o := range []mail.Outcome{mail.Sent, mail.Delayed, mail.Dropped} {
		letters.WithLabelValues(string(o)) // so that they are exported before they happen
	}
	cfg := mail.Config{
		Queue: p.queue, Writer: p.db, Box: p.box, Clock: p.clock, Logger: p.log,
		Observe: func(o mail.Outcome) { letters.WithLabelValues(string(o)).Inc() },
	}
	if url := p.cfg.Mail.SMTPURL; !url.Empty() {
		sender, err := smtpmail.New(smtpmail.Config{URL: url.Reveal(), From: p.cfg.Mail.From})
		if err != nil {
			return nil, fmt.Errorf("AGENTD_SMTP_URL and AGENTD_MAIL_FROM: %w", err)
		}
		cfg.Sender = sender
	}
	return mail.NewPost(cfg), nil
}

func newWebhooks(p *platform, out *egress, accounts *accounts) *webhook.Service {
	attempts := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "agentd_webhook_attempt_seconds", Help: "Duration of webhook delivery attempts, by success.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
	}, []string{"success"})
	p.metrics.MustRegister(attempts)
	webhooks := webhook.New(webhook.Deps{
		Store:  announcedWebhooks{webhooksql.New(p.db), p.announce},
		Writer: p.db, Queue: p.queue, Clock: p.clock, Box: p.box, Cursors: p.cursors, Audit: p.audit,
		Sender: out.caller(p), Events: p.events.Registry,
		CheckURL: p.checkWebhook(out.checkURL), Quota: accounts.usage, Waits: p.config.WebhookWaits, Allowed: p.config.CheckWebhook,
		Observe: func(o webhook.Outcome) {
			attempts.WithLabelValues(strconv.FormatBool(o.Failure == "")).Observe(o.Latency.Seconds())
		},
	})
	p.events.Connect(webhooks)
	return webhooks
}

// notifyAdmins notifies the admins of a tenant of a quota event.
func (d *delivery) notifyAdmins(p *platform, accounts *accounts) resource.HandlerFunc {
	return func(ctx context.Context, c resource.Change) error {
		e, err := accounts.usage.Event(ctx, c.TenantID, c.ID)
		if err != nil {
			return err
		}
		admins, err := accounts.usageStore.ListAdmins(ctx, c.TenantID)
		if err != nil {
			return err
		}
		return p.db.Write(ctx, func(tx txn.Tx) error {
			for _, id := range admins {
				if err := d.notifications.Notify(tx, quotaNotification(&e, id)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// emitQuotaEvent emits a quota event to the tenant's webhooks.
func (d *delivery) emitQuotaEvent(p *platform, accounts *accounts) resource.HandlerFunc {
	return func(ctx context.Context, c resource.Change) error {
		e, err := accounts.usage.Event(ctx, c.TenantID, c.ID)
		if err != nil {
			return err
		}
		return p.db.Write(ctx, func(tx txn.Tx) error {
			data := func() (jsontext.Value, error) { return e.Data(), nil }
			return d.webhooks.Emit(tx, webhook.Event{TenantID: e.TenantID, ID: e.ID, Type: e.Type, At: e.CreatedAt, Data: data})
		})
	}
}

// quotaNotification is what an admin reads of a quota event.
func quotaNotification(e *usage.Event, admin string) notification.Notification {
	what, resets := "The plan's "+string(e.Resource), e.ResetsAt.Format("2006-01-02 15:04 MST")
	source := &notification.Source{Kind: "budget", ID: string(e.Resource)}
	url, then := "/api/v1/usage/quota", "Further use is refused until %s, unless an admin allows more than the plan includes."
	if e.Resource == usage.BudgetResource {
		what, url, then = "The budget", "/api/v1/billing/budget", "Runs and model calls are refused until %s, or until the budget is raised."
	}
	n := notification.Notification{
		TenantID: e.TenantID, UserID: &admin, Type: notification.BudgetWarning, Priority: notification.Warning,
		Title: fmt.Sprintf("%s: %d %% are used", what, e.Percent()), Data: []byte(e.Data()), ActionURL: url, Source: source,
		Message:  fmt.Sprintf("%s: %d %% are used. It resets at %s.", what, e.Percent(), resets),
		DedupKey: "usage/" + e.ID + "/" + admin,
	}
	if e.Type == usage.TypeExceeded {
		n.Type, n.Priority = notification.BudgetExceeded, notification.Critical
		n.Title = what + " is used up"
		n.Message = n.Title + ". " + fmt.Sprintf(then, resets)
	}
	return n
}
