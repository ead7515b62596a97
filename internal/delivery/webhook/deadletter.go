package webhook

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// operatorRoutes returns the operations on dead letters: the deliveries of all
// tenants that were given up.
func (s *Service) operatorRoutes() []route.Route {
	row := func(method, path, id, summary, doc string, errors ...int) route.Row {
		return route.Row{
			Method: method, Path: "/api/v1/admin/webhooks/dlq" + path, ID: id, Tag: "Admin", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{authz.SuperScope}, Role: authz.Admin, Operator: true, Errors: errors,
		}
	}
	return []route.Route{
		route.Action(row("GET", "", "listDeadLetters", "List webhook dead letters, newest first",
			"Deliveries of all companies that were given up: "+
				"all attempts failed, or the endpoint refused the event permanently.", 422), s.deadLetters),
		route.Action(row("POST", "/{eventId}/replay", "replayDeadLetter", "Replay a dead letter",
			"Sends the event again to every subscription for which its delivery was given up, "+
				"unless the subscription was deleted or is disabled.", 404, 422), s.replay),
	}
}

type deadLettersIn struct {
	Limit  string `query:"limit" doc:"Entries per page, 1 to 100; default 50."`
	Cursor string `query:"cursor"`
}

// deadLetterView is a dead letter as the API shows it. Its field names are those
// of an older version of the API.
type deadLetterView struct {
	_ struct{} `json:"-" name:"WebhookDeadLetter"`

	EventID      string         `json:"eventId" required:"true"`
	EventType    string         `json:"eventType" required:"true"`
	Payload      jsontext.Value `json:"payload" doc:"The request body."`
	ErrorMessage string         `json:"errorMessage" required:"true"`
	Timestamp    time.Time      `json:"timestamp" required:"true" doc:"When the last attempt was queued."`
	TenantID     *string        `json:"tenantId" required:"true"`
	WebhookID    string         `json:"webhookId" required:"true"`
	DeliveryID   string         `json:"deliveryId" required:"true"`
	Attempts     int            `json:"attempts" required:"true"`
}

type deadLetterPage struct {
	_ struct{} `json:"-" name:"WebhookDeadLetterList"`

	Entries []deadLetterView `json:"entries" required:"true"`
	Cursor  *string          `json:"cursor" required:"true"`
	HasMore bool             `json:"has_more" required:"true"`
}

func (s *Service) deadLetters(ctx context.Context, who authz.Caller, in *deadLettersIn) (out deadLetterPage, err error) {
	scope := page.ScopeOf(who.TenantID, "webhook_dead_letters", in)
	before, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return out, err
	}
	limit := page.Limit(in.Limit, 50, logPage)
	found, err := s.Store.ListDeadLetters(ctx, "", before, limit+1)
	if err != nil {
		return out, err
	}
	found, out.HasMore = page.Cut(found, limit, func(d DeadLetter) int { return len(d.Body) })
	if out.HasMore {
		cursor := s.Cursors.Seal(scope, found[len(found)-1].ID)
		out.Cursor = &cursor
	}
	out.Entries = []deadLetterView{}
	for i := range found {
		d := &found[i]
		out.Entries = append(out.Entries, deadLetterView{
			EventID: d.EventID, EventType: d.EventType, Payload: d.Body, ErrorMessage: d.Failure, Timestamp: d.CreatedAt,
			TenantID: &d.TenantID, WebhookID: d.SubscriptionID, DeliveryID: d.ID, Attempts: d.Number,
		})
	}
	return out, nil
}

type replayIn struct {
	EventID string `path:"eventId"`
}

type replayed struct {
	_ struct{} `json:"-" name:"WebhookDeadLetterReplay"`

	Success bool   `json:"success" required:"true"`
	EventID string `json:"eventId" required:"true"`
	Action  string `json:"action" required:"true" enum:"replayed"`
	Message string `json:"message" required:"true"`
}

func (s *Service) replay(ctx context.Context, who authz.Caller, in *replayIn) (answer replayed, err error) {
	found, err := s.Store.ListDeadLetters(ctx, in.EventID, "", maxSubscriptions)
	if err != nil {
		return answer, err
	}
	if len(found) == 0 {
		return answer, fault.NewNotFound("dead letter")
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		sent := 0
		for i := range found {
			ok, err := s.replayOne(ctx, tx, &found[i])
			if err != nil {
				return err
			}
			if ok {
				sent++
			}
		}
		if sent == 0 {
			return fault.New(fault.Invalid, "",
				"Nothing was sent: the subscriptions that did not receive the event are disabled or deleted, "+
					"or it is being sent to them again already.")
		}
		err := audit.Write(s.Audit, tx, who, audit.Entry{Action: "webhook.replayed", TargetType: "webhook_event", TargetID: in.EventID})
		if err != nil {
			return err
		}
		answer = replayed{
			Success: true, EventID: in.EventID, Action: "replayed",
			Message: "The event is sent again to the subscriptions that did not receive it.",
		}
		return txn.Answer(tx, answer)
	})
	return answer, err
}

// replayOne sends a dead letter again, and reports whether it did. It does not if
// the subscription was deleted or is disabled, or if the letter was replayed
// meanwhile.
func (s *Service) replayOne(ctx context.Context, tx txn.Tx, d *DeadLetter) (bool, error) {
	sub, err := s.Store.Get(ctx, d.TenantID, d.SubscriptionID)
	if fault.Is(err, fault.NotFound) || err == nil && sub.Status == Disabled {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cleared, err := s.Store.ClearDeadTx(tx, d.TenantID, d.SubscriptionID, d.ID)
	if err != nil || !cleared {
		return false, err
	}
	return true, s.addAttempts(tx, d.TenantID, firstAttempt(d.SubscriptionID, d.EventID, d.EventType, s.Clock.Now()))
}
