package webhook

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/text"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/work"
)

// Routes returns the operations on subscriptions and their delivery log.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary, doc string, scope authz.Scope, role authz.Role, errors ...int) route.Row {
		return route.Row{
			Method: method, Path: "/api/v1/webhooks" + path, ID: id, Tag: "Webhooks", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{scope}, Role: role, Errors: errors,
		}
	}
	read := func(path, id, summary, doc string, errors ...int) route.Row {
		return row("GET", path, id, summary, doc, "webhooks:read", authz.Viewer, errors...)
	}
	write := func(method, path, id, summary, doc string, errors ...int) route.Row {
		return row(method, path, id, summary, doc, "webhooks:write", authz.Admin, errors...)
	}
	const one, entry = "/{webhookId}", "/{webhookId}/deliveries/{deliveryId}"
	create := write("POST", "", "createWebhook", "Create a webhook subscription",
		"Only this response shows the secret that signs the requests. A subscription cannot be changed: create another and delete this one.")
	create.Status, create.Outside, create.Sends = 201, true, published(s.Events) // checking the URL resolves its host
	remove := write("DELETE", one, "deleteWebhook", "Delete a subscription",
		"Nothing more is sent to it. Succeeds also if it does not exist.")
	create.Fresh, remove.Fresh = true, true
	get := read(one, "getWebhook", "Get a subscription", "", 404)
	get.Conditional = true
	return append([]route.Route{
		route.Action(create, s.create),
		route.Action(read("", "listWebhooks", "List subscriptions, newest first", ""), s.list),
		route.Action(get, s.get),
		route.Action(remove, s.remove),
		route.Action(write("POST", one+"/test", "testWebhook", "Send a test event",
			"Responds once the event is queued; the delivery log shows the outcome. Its data is `{\"test\": true}`.", 404, 422), s.test),
		route.Action(write("POST", one+"/enable", "enableWebhook", "Enable a subscription",
			"Delivers again to a subscription that was disabled because its endpoint kept failing, "+
				"also the events that were pending.", 404), s.enable),
		route.Action(read(one+"/deliveries", "listWebhookDeliveries", "List delivery attempts, newest first",
			"The delivery log has an entry for each attempt, kept for 7 days; at most 5000 are counted.", 404, 422), s.log),
		route.Action(read(entry, "getWebhookDelivery", "Get a delivery attempt, with its request body", "", 404), s.delivery),
		route.Action(write("POST", entry+"/redeliver", "redeliverWebhook", "Redeliver an event",
			"Sends the event again with the same event id and body, and with as many attempts as the first time.", 404, 422), s.redeliver),
	}, s.operatorRoutes()...)
}

// View is a subscription as the API shows it.
type View struct {
	_ struct{} `json:"-" name:"WebhookSubscription"`

	WebhookID     string     `json:"webhook_id" format:"uuid" required:"true"`
	TenantID      string     `json:"tenant_id" required:"true"`
	URL           string     `json:"url" required:"true"`
	Events        []string   `json:"events" required:"true"`
	Secret        string     `json:"secret" required:"true" doc:"Shown in full only when the subscription is created."`
	Status        Status     `json:"status" enum:"active,failing,disabled" required:"true"`
	FailureCount  int64      `json:"failure_count" required:"true" doc:"Consecutive failed attempts."`
	LastFailureAt *time.Time `json:"last_failure_at" required:"true"`
	CreatedAt     time.Time  `json:"created_at" required:"true"`
	route.Repetition
}

// WithoutSecret implements route.ShownOnce.
func (v View) WithoutSecret() any {
	if v.Secret != secret.Redacted {
		v.Secret, v.Repetition = secret.Redacted, route.Repeated
	}
	return v
}

func (s *Subscription) view() View {
	return View{
		WebhookID: s.ID, TenantID: s.TenantID, URL: s.URL, Events: s.Events, Secret: secret.Redacted, Status: s.Status,
		FailureCount: s.Failures, LastFailureAt: optionalTime(s.LastFailure), CreatedAt: s.CreatedAt,
	}
}

// optionalTime returns nil for the zero time.
func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

type createIn struct {
	Body struct {
		_ struct{} `json:"-" name:"WebhookSubscriptionCreate"`

		URL    string   `json:"url" required:"true" doc:"A public http or https URL."`
		Events []string `json:"events" required:"true" minItems:"1" maxItems:"50" doc:"Names of events. The older names company.* stand for initiative.*."`
	}
}

// checkEvents returns the names as they are stored, and what is invalid.
func (r *Registry) checkEvents(names []string) (events []string, invalid []fault.Field) {
	for _, name := range names {
		event, known := r.canonical(name)
		if !known {
			message := "there is no event " + quoted(name) + "; the events are " + strings.Join(r.Names(), ", ")
			invalid = append(invalid, fault.Field{Field: "events", Message: message})
			continue
		}
		if !slices.Contains(events, event) {
			events = append(events, event)
		}
	}
	return events, invalid
}

// quoted returns a client's text, shortened and quoted, for a sentence.
func quoted(s string) string {
	const maxQuoted = 100
	quoted, err := json.Marshal(text.TruncateBytes(s, maxQuoted))
	if err != nil {
		return `""`
	}
	return string(quoted)
}

func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (v View, err error) {
	events, invalid := s.Events.checkEvents(in.Body.Events)
	if err := s.CheckURL(ctx, who.TenantID, in.Body.URL); fault.Is(err, fault.Invalid) {
		invalid = append(invalid, fault.Field{Field: "url", Message: fault.From(err).Detail})
	} else if err != nil {
		return v, err
	}
	if invalid != nil {
		return v, fault.BadFields(invalid...)
	}
	sub := Subscription{
		TenantID: who.TenantID, ID: ident.New(), URL: in.Body.URL, Events: events, Status: Active, CreatedAt: s.Clock.Now(),
	}
	key := secret.NewSigningSecret()
	sub.Sealed = s.Box.Seal([]byte(key), sub.context())
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		if s.Quota != nil {
			if err := s.Quota.Reserve(tx, who.TenantID, quota.Webhooks); err != nil {
				return err
			}
		}
		count, err := s.Store.CreateTx(tx, sub)
		if err != nil {
			return err
		}
		if count > maxSubscriptions {
			return fault.New(fault.Invalid, "limit_reached",
				"There are already %d webhook subscriptions, which is the maximum; delete one first.", maxSubscriptions)
		}
		if err := s.recordAudit(tx, who, "created", &sub); err != nil {
			return err
		}
		v = sub.view()
		v.Secret = key
		return txn.Answer(tx, v)
	})
	return v, err
}

func (s *Service) recordAudit(tx txn.Tx, who authz.Caller, action string, sub *Subscription) error {
	return audit.Write(s.Audit, tx, who, audit.Entry{Action: "webhook." + action, TargetType: "webhook", TargetID: sub.ID})
}

type nothing struct{}

type listing struct {
	_ struct{} `json:"-" name:"WebhookSubscriptionList"`

	Webhooks []View `json:"webhooks" required:"true"`
	Total    int    `json:"total" required:"true"`
}

func (s *Service) list(ctx context.Context, who authz.Caller, _ *nothing) (listing, error) {
	all, err := s.Store.List(ctx, who.TenantID)
	l := listing{Webhooks: make([]View, len(all)), Total: len(all)}
	for i := range all {
		l.Webhooks[i] = all[i].view()
	}
	return l, err
}

type oneIn struct {
	WebhookID string `path:"webhookId"`
}

func (s *Service) get(ctx context.Context, who authz.Caller, in *oneIn) (View, error) {
	sub, err := s.Store.Get(ctx, who.TenantID, in.WebhookID)
	if err != nil {
		return View{}, err
	}
	return sub.view(), nil
}

// Row returns a subscription as lists show it. Errors: fault.NotFound.
func (s *Service) Row(ctx context.Context, tenant, id string) (View, error) {
	return s.get(ctx, authz.Caller{TenantID: tenant}, &oneIn{WebhookID: id})
}

type anyIn struct {
	WebhookID string `path:"webhookId" format:"any" maxLength:"200"`
}

type removed struct {
	_ struct{} `json:"-" name:"WebhookDeleted"`

	Deleted   bool   `json:"deleted" required:"true"`
	WebhookID string `json:"webhook_id" required:"true"`
}

func (s *Service) remove(ctx context.Context, who authz.Caller, in *anyIn) (removed, error) {
	answer := removed{WebhookID: in.WebhookID}
	answer.Deleted = true
	return answer, s.Writer.Write(ctx, func(tx txn.Tx) error {
		found, err := s.Store.DeleteTx(tx, who.TenantID, in.WebhookID, s.Clock.Now())
		if err != nil {
			return err
		}
		if found {
			// The node that runs the dispatcher loses its lease with this commit.
			if err := s.Queue.DeleteTx(tx, WorkKind, in.WebhookID); err != nil {
				return err
			}
			if err := s.recordAudit(tx, who, "deleted", &Subscription{ID: in.WebhookID}); err != nil {
				return err
			}
		}
		return txn.Answer(tx, answer)
	})
}

type tested struct {
	_ struct{} `json:"-" name:"WebhookTested"`

	TestSent  bool   `json:"test_sent" required:"true"`
	WebhookID string `json:"webhook_id" required:"true"`
	EventType string `json:"event_type" required:"true"`
}

func (s *Service) test(ctx context.Context, who authz.Caller, in *oneIn) (tested, error) {
	sub, err := s.Store.Get(ctx, who.TenantID, in.WebhookID)
	if err != nil {
		return tested{}, err
	}
	answer := tested{TestSent: true, WebhookID: sub.ID, EventType: "run.completed"}
	if len(sub.Events) > 0 {
		answer.EventType = sub.Events[0]
	}
	if sub.Status != Active {
		return answer, fault.New(fault.Invalid, "", "The subscription is %s, and only an active one can be tested; enable it first.", sub.Status)
	}
	e, err := render(Event{TenantID: who.TenantID, Type: answer.EventType, At: s.Clock.Now(), Data: func() (jsontext.Value, error) {
		return jsontext.Value(`{"test":true}`), nil
	}})
	if err != nil {
		return answer, err
	}
	return answer, s.Writer.Write(ctx, func(tx txn.Tx) error {
		if _, err := s.Store.CreateEventTx(tx, e); err != nil {
			return err
		}
		if err := s.deliver(tx, &e, sub.ID); err != nil {
			return err
		}
		return txn.Answer(tx, answer)
	})
}

func (s *Service) enable(ctx context.Context, who authz.Caller, in *oneIn) (v View, err error) {
	sub, err := s.Store.Get(ctx, who.TenantID, in.WebhookID)
	if err != nil {
		return v, err
	}
	sub.Status, sub.Failures = Active, 0
	return sub.view(), s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Store.EnableTx(tx, who.TenantID, sub.ID); err != nil {
			return err
		}
		// A running dispatcher may still take the subscription for failing. Removing
		// its item stops it; a new one starts.
		if err := s.Queue.DeleteTx(tx, WorkKind, sub.ID); err != nil {
			return err
		}
		err := s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: sub.ID, TenantID: who.TenantID, Due: s.Clock.Now()})
		if err != nil {
			return err
		}
		if err := s.recordAudit(tx, who, "enabled", sub); err != nil {
			return err
		}
		return txn.Answer(tx, sub.view())
	})
}

// Entries of the delivery log per page, and how many are counted.
const (
	logPage    = 100
	logCounted = 5000
)

type logIn struct {
	WebhookID string `path:"webhookId"`
	Limit     string `query:"limit" doc:"Entries per page, 1 to 100; default 100."`
	Cursor    string `query:"cursor"`
}

// Entry is an attempt as the delivery log shows it.
type Entry struct {
	_ struct{} `json:"-" name:"WebhookDelivery"`

	DeliveryID     string     `json:"delivery_id" format:"uuid" required:"true"`
	EventID        string     `json:"event_id" required:"true" doc:"The same for all attempts of an event, so that receivers recognize repeats."`
	WebhookID      string     `json:"webhook_id" format:"uuid" required:"true"`
	EventType      string     `json:"event_type" required:"true"`
	AttemptNumber  int        `json:"attempt_number" required:"true"`
	Status         State      `json:"status" enum:"pending,success,failed" required:"true"`
	ResponseStatus *int       `json:"response_status" required:"true" doc:"Null if no response came."`
	ErrorMessage   *string    `json:"error_message" required:"true"`
	LatencyMS      *float64   `json:"latency_ms" required:"true"`
	NextRetryAt    *time.Time `json:"next_retry_at" required:"true" doc:"When the next attempt is made; null if there is none."`
	CreatedAt      time.Time  `json:"created_at" required:"true"`

	RequestBody string `json:"request_body,omitzero" doc:"The body that was or will be sent. Not in lists."`
}

func (a *Attempt) entry() Entry {
	e := Entry{
		DeliveryID: a.ID, EventID: a.EventID, WebhookID: a.SubscriptionID, EventType: a.EventType, AttemptNumber: a.Number,
		Status: a.State, NextRetryAt: optionalTime(a.NextRetry), CreatedAt: a.CreatedAt,
	}
	if a.State == Pending {
		return e
	}
	ms := float64(a.Latency.Microseconds()) / 1000
	e.LatencyMS = &ms
	if a.Status != 0 {
		e.ResponseStatus = &a.Status
	}
	if a.Failure != "" {
		e.ErrorMessage = &a.Failure
	}
	return e
}

type logOut struct {
	_ struct{} `json:"-" name:"WebhookDeliveryList"`

	WebhookID  string  `json:"webhook_id" required:"true"`
	Deliveries []Entry `json:"deliveries" required:"true"`
	Total      int     `json:"total" required:"true" doc:"Number of entries on all pages; at most 5000 are counted."`
	Truncated  bool    `json:"truncated" required:"true" doc:"Whether there are older entries."`
	Cursor     *string `json:"cursor" required:"true" doc:"Pass it to get older entries; null if there are none."`
}

func (s *Service) log(ctx context.Context, who authz.Caller, in *logIn) (out logOut, err error) {
	if _, err := s.Store.Get(ctx, who.TenantID, in.WebhookID); err != nil {
		return out, err
	}
	scope := page.ScopeOf(who.TenantID, "webhook_deliveries", in)
	before, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return out, err
	}
	limit := page.Limit(in.Limit, logPage, logPage)
	found, total, err := s.Store.ListAttempts(ctx, who.TenantID, in.WebhookID, before, limit+1, logCounted)
	if err != nil {
		return out, err
	}
	out = logOut{WebhookID: in.WebhookID, Deliveries: []Entry{}, Total: total}
	if out.Truncated = len(found) > limit; out.Truncated {
		found = found[:limit]
		cursor := s.Cursors.Seal(scope, found[limit-1].ID)
		out.Cursor = &cursor
	}
	for i := range found {
		out.Deliveries = append(out.Deliveries, found[i].entry())
	}
	return out, nil
}

type entryIn struct {
	WebhookID  string `path:"webhookId"`
	DeliveryID string `path:"deliveryId"`
}

// find reads a subscription and one of its attempts.
func (s *Service) find(ctx context.Context, who authz.Caller, in *entryIn) (*Subscription, *DueAttempt, error) {
	sub, err := s.Store.Get(ctx, who.TenantID, in.WebhookID)
	if err != nil {
		return nil, nil, err
	}
	d, err := s.Store.GetAttempt(ctx, who.TenantID, in.WebhookID, in.DeliveryID)
	return sub, d, err
}

func (s *Service) delivery(ctx context.Context, who authz.Caller, in *entryIn) (e Entry, err error) {
	_, d, err := s.find(ctx, who, in)
	if err != nil {
		return e, err
	}
	e = d.entry()
	e.RequestBody = string(d.Body)
	return e, nil
}

type redelivered struct {
	_ struct{} `json:"-" name:"WebhookRedelivered"`

	Redelivered bool   `json:"redelivered" required:"true"`
	WebhookID   string `json:"webhook_id" required:"true"`
	DeliveryID  string `json:"delivery_id" required:"true" doc:"Id of the new attempt."`
	EventID     string `json:"event_id" required:"true"`
}

func (s *Service) redeliver(ctx context.Context, who authz.Caller, in *entryIn) (answer redelivered, err error) {
	sub, d, err := s.find(ctx, who, in)
	if err != nil {
		return answer, err
	}
	if sub.Status == Disabled {
		return answer, fault.New(fault.Invalid, "", "The subscription is disabled; enable it first.")
	}
	again := firstAttempt(d.SubscriptionID, d.EventID, d.EventType, s.Clock.Now())
	answer = redelivered{Redelivered: true, WebhookID: sub.ID, DeliveryID: again.ID, EventID: d.EventID}
	return answer, s.Writer.Write(ctx, func(tx txn.Tx) error {
		// An event that is sent again is no dead letter any more.
		if _, err := s.Store.ClearDeadTx(tx, who.TenantID, d.SubscriptionID, d.ID); err != nil {
			return err
		}
		if err := s.addAttempts(tx, who.TenantID, again); err != nil {
			return err
		}
		return txn.Answer(tx, answer)
	})
}
