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

// Routes lists the operations on subscriptions and their log.
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
	create := write("POST", "", "createWebhook", "Have events sent to an address",
		"The answer is the only one that shows the secret that requests are signed with. A subscription is never edited: make another and delete this one.")
	create.Status, create.Outside = 201, true // it looks names up
	return append([]route.Route{
		route.Action(create, s.create),
		route.Action(read("", "listWebhooks", "List subscriptions, newest first", ""), s.list),
		route.Action(read(one, "getWebhook", "Read a subscription", "", 404), s.get),
		route.Action(write("DELETE", one, "deleteWebhook", "Delete a subscription", "Nothing more is sent to it. Also where there is none with this id."), s.remove),
		route.Action(write("POST", one+"/test", "testWebhook", "Send a made-up event, to see whether it arrives",
			"Answers once it is queued; the delivery log tells what became of it. Its data is {\"test\": true}.", 404, 422), s.test),
		route.Action(write("POST", one+"/enable", "enableWebhook", "Deliver to a subscription again",
			"After it was disabled because its receiver kept failing. What waited for it then is sent.", 404), s.enable),
		route.Action(read(one+"/deliveries", "listWebhookDeliveries", "Read the delivery log, newest first",
			"An entry for each attempt, kept for 7 days; at most 5000 are counted.", 404, 422), s.log),
		route.Action(read(entry, "getWebhookDelivery", "Read one attempt, with what was sent", "", 404), s.delivery),
		route.Action(write("POST", entry+"/redeliver", "redeliverWebhook", "Send an event again",
			"With the same event id and body, and as many attempts as the first time.", 404, 422), s.redeliver),
	}, s.operatorRoutes()...)
}

// View is a subscription as clients see it.
type View struct {
	_ struct{} `json:"-" name:"WebhookSubscription"`

	WebhookID     string     `json:"webhook_id" format:"uuid" required:"true"`
	TenantID      string     `json:"tenant_id" required:"true"`
	URL           string     `json:"url" required:"true"`
	Events        []string   `json:"events" required:"true"`
	Secret        string     `json:"secret" required:"true" doc:"Shown when the subscription is made, and never again."`
	Status        Status     `json:"status" enum:"active,failing,disabled" required:"true"`
	FailureCount  int64      `json:"failure_count" required:"true" doc:"Attempts in a row that failed."`
	LastFailureAt *time.Time `json:"last_failure_at" required:"true"`
	CreatedAt     time.Time  `json:"created_at" required:"true"`
}

func (s *Subscription) view() View {
	return View{
		WebhookID: s.ID, TenantID: s.TenantID, URL: s.URL, Events: s.Events, Secret: secret.Redacted, Status: s.Status,
		FailureCount: s.Failures, LastFailureAt: moment(s.LastFailure), CreatedAt: s.CreatedAt,
	}
}

type createIn struct {
	Body struct {
		_ struct{} `json:"-" name:"WebhookSubscriptionCreate"`

		URL    string   `json:"url" required:"true" doc:"A public http or https address."`
		Events []string `json:"events" required:"true" minItems:"1" maxItems:"50" doc:"Names of events; the older company.* names count as initiative.*."`
	}
}

// wanted checks the names of events and gives them as they are stored.
func wanted(names []string) (events []string, wrong []fault.Field) {
	for _, name := range names {
		event, known := canonical(name)
		if !known {
			wrong = append(wrong, fault.Field{Field: "events", Message: "knows no event " + quoted(name) + "; there are " + strings.Join(Names, ", ")})
			continue
		}
		if !slices.Contains(events, event) {
			events = append(events, event)
		}
	}
	return events, wrong
}

// quoted is a foreign word for a sentence.
func quoted(s string) string {
	const maxQuoted = 100
	quoted, err := json.Marshal(text.TruncateBytes(s, maxQuoted))
	if err != nil {
		return `""`
	}
	return string(quoted)
}

func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (v View, err error) {
	events, wrong := wanted(in.Body.Events)
	if err := s.CheckURL(ctx, in.Body.URL); err != nil {
		wrong = append(wrong, fault.Field{Field: "url", Message: fault.From(err).Detail})
	}
	if wrong != nil {
		return v, fault.BadFields(wrong...)
	}
	sub := Subscription{
		TenantID: who.TenantID, ID: ident.New(), URL: in.Body.URL, Events: events, Status: Active, CreatedAt: s.Clock.Now(),
	}
	key := secret.NewSigningSecret()
	sub.Sealed = s.Box.Seal([]byte(key), sub.context())
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		if s.Quota != nil {
			if err := s.Quota.Take(tx, who.TenantID, quota.Webhooks); err != nil {
				return err
			}
		}
		held, err := s.Store.CreateTx(tx, sub)
		if err != nil {
			return err
		}
		if held > maxHeld {
			return fault.New(fault.Invalid, "limit_reached", "There are %d webhook subscriptions, and there may be no more; delete one first.", maxHeld)
		}
		if err := s.tell(tx, who, "created", &sub); err != nil {
			return err
		}
		v = sub.view()
		v.Secret = key
		return txn.Answer(tx, v)
	})
	return v, err
}

func (s *Service) tell(tx txn.Tx, who authz.Caller, action string, sub *Subscription) error {
	return audit.Tell(s.Audit, tx, who, audit.Entry{Action: "webhook." + action, TargetType: "webhook", TargetID: sub.ID})
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
			// Whoever delivers to it loses the lane with this commit.
			if err := s.Queue.DeleteTx(tx, WorkKind, in.WebhookID); err != nil {
				return err
			}
			if err := s.tell(tx, who, "deleted", &Subscription{ID: in.WebhookID}); err != nil {
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
		return answer, fault.New(fault.Invalid, "", "The subscription is %s, and nothing is sent to test it; enable it first.", sub.Status)
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
		// Whoever drives the lane may still take it for failing: it begins anew.
		if err := s.Queue.DeleteTx(tx, WorkKind, sub.ID); err != nil {
			return err
		}
		err := s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: sub.ID, TenantID: who.TenantID, Due: s.Clock.Now()})
		if err != nil {
			return err
		}
		if err := s.tell(tx, who, "enabled", sub); err != nil {
			return err
		}
		return txn.Answer(tx, sub.view())
	})
}

// Entries of the log per answer, and how many are counted.
const (
	logPage    = 100
	logCounted = 5000
)

type logIn struct {
	WebhookID string `path:"webhookId"`
	Limit     string `query:"limit" doc:"Entries per page, 1 to 100; 100 if it is left out."`
	Cursor    string `query:"cursor"`
}

// Entry is an entry of the delivery log (decisions.md D9).
type Entry struct {
	_ struct{} `json:"-" name:"WebhookDelivery"`

	DeliveryID     string     `json:"delivery_id" format:"uuid" required:"true"`
	EventID        string     `json:"event_id" required:"true" doc:"The same with every attempt, and what receivers know an event again by."`
	WebhookID      string     `json:"webhook_id" format:"uuid" required:"true"`
	EventType      string     `json:"event_type" required:"true"`
	AttemptNumber  int        `json:"attempt_number" required:"true"`
	Status         State      `json:"status" enum:"pending,success,failed" required:"true"`
	ResponseStatus *int       `json:"response_status" required:"true" doc:"Null where no answer came."`
	ErrorMessage   *string    `json:"error_message" required:"true"`
	LatencyMS      *float64   `json:"latency_ms" required:"true"`
	NextRetryAt    *time.Time `json:"next_retry_at" required:"true" doc:"When the next attempt is made; null where none is."`
	CreatedAt      time.Time  `json:"created_at" required:"true"`

	RequestBody string `json:"request_body,omitzero" doc:"What was or will be sent; only where one attempt is read."`
}

func (d *Delivery) entry() Entry {
	e := Entry{
		DeliveryID: d.ID, EventID: d.EventID, WebhookID: d.WebhookID, EventType: d.EventType, AttemptNumber: d.Attempt,
		Status: d.State, NextRetryAt: moment(d.NextRetry), CreatedAt: d.CreatedAt,
	}
	if d.State == Pending {
		return e
	}
	ms := float64(d.Latency.Microseconds()) / 1000
	e.LatencyMS = &ms
	if d.Status != 0 {
		e.ResponseStatus = &d.Status
	}
	if d.Failure != "" {
		e.ErrorMessage = &d.Failure
	}
	return e
}

type logOut struct {
	_ struct{} `json:"-" name:"WebhookDeliveryList"`

	WebhookID  string  `json:"webhook_id" required:"true"`
	Deliveries []Entry `json:"deliveries" required:"true"`
	Total      int     `json:"total" required:"true" doc:"How many there are on all pages; at most 5000 are counted."`
	Truncated  bool    `json:"truncated" required:"true" doc:"Whether there are older ones."`
	Cursor     *string `json:"cursor" required:"true" doc:"Send it back to get the older ones; null where there are none."`
}

func (s *Service) log(ctx context.Context, who authz.Caller, in *logIn) (out logOut, err error) {
	if _, err := s.Store.Get(ctx, who.TenantID, in.WebhookID); err != nil {
		return out, err
	}
	scope := page.Scope{Tenant: who.TenantID, List: "webhook_deliveries", Filter: []string{in.WebhookID}}
	before, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return out, err
	}
	limit := page.Limit(in.Limit, logPage, logPage)
	found, total, err := s.Store.ListDeliveries(ctx, who.TenantID, in.WebhookID, before, limit+1, logCounted)
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

// find reads an attempt of a subscription that there is.
func (s *Service) find(ctx context.Context, who authz.Caller, in *entryIn) (*Subscription, *Ready, error) {
	sub, err := s.Store.Get(ctx, who.TenantID, in.WebhookID)
	if err != nil {
		return nil, nil, err
	}
	d, err := s.Store.GetDelivery(ctx, who.TenantID, in.WebhookID, in.DeliveryID)
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
	DeliveryID  string `json:"delivery_id" required:"true" doc:"Of the new attempt."`
	EventID     string `json:"event_id" required:"true"`
}

func (s *Service) redeliver(ctx context.Context, who authz.Caller, in *entryIn) (answer redelivered, err error) {
	sub, d, err := s.find(ctx, who, in)
	if err != nil {
		return answer, err
	}
	if sub.Status == Disabled {
		return answer, fault.New(fault.Invalid, "", "The subscription is disabled, and nothing is sent to it; enable it first.")
	}
	again := s.again(&d.Delivery)
	answer = redelivered{Redelivered: true, WebhookID: sub.ID, DeliveryID: again.ID, EventID: d.EventID}
	return answer, s.Writer.Write(ctx, func(tx txn.Tx) error {
		// Whoever sends it again takes it off the operator's list.
		if _, err := s.Store.ClearDeadTx(tx, who.TenantID, d.WebhookID, d.ID); err != nil {
			return err
		}
		if err := s.leave(tx, who.TenantID, again); err != nil {
			return err
		}
		return txn.Answer(tx, answer)
	})
}

// again is a first attempt at an event that was sent before.
func (s *Service) again(d *Delivery) Delivery {
	now := s.Clock.Now()
	return Delivery{
		ID: ident.New(), WebhookID: d.WebhookID, EventID: d.EventID, EventType: d.EventType, Attempt: 1, State: Pending, Due: now, CreatedAt: now,
	}
}
