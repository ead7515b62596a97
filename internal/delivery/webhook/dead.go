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

// operatorRoutes list the operations on deliveries that were given up, of
// whatever company.
func (s *Service) operatorRoutes() []route.Route {
	row := func(method, path, id, summary, doc string, errors ...int) route.Row {
		return route.Row{
			Method: method, Path: "/api/v1/admin/webhooks/dlq" + path, ID: id, Tag: "Admin", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{authz.SuperScope}, Role: authz.Admin, Operator: true, Errors: errors,
		}
	}
	return []route.Route{
		route.Action(row("GET", "", "listDeadLetters", "List webhook deliveries that were given up, newest first",
			"Of all companies: those whose attempts are used up, or whose receiver refused for good.", 422), s.deadLetters),
		route.Action(row("POST", "/{eventId}/replay", "replayDeadLetter", "Send an event again to those that did not get it",
			"To every subscription for which its delivery was given up, and that still is there and not disabled.", 404, 422), s.replay),
	}
}

type deadIn struct {
	Limit  string `query:"limit" doc:"Entries per page, 1 to 100; 50 if it is left out."`
	Cursor string `query:"cursor"`
}

// The names of these fields are those of the older interface.
type deadEntry struct {
	_ struct{} `json:"-" name:"WebhookDeadLetter"`

	EventID      string         `json:"eventId" required:"true"`
	EventType    string         `json:"eventType" required:"true"`
	Payload      jsontext.Value `json:"payload" doc:"What was sent."`
	ErrorMessage string         `json:"errorMessage" required:"true"`
	Timestamp    time.Time      `json:"timestamp" required:"true" doc:"When the last attempt was queued."`
	TenantID     *string        `json:"tenantId" required:"true"`
	WebhookID    string         `json:"webhookId" required:"true"`
	DeliveryID   string         `json:"deliveryId" required:"true"`
	Attempts     int            `json:"attempts" required:"true"`
}

type deadPage struct {
	_ struct{} `json:"-" name:"WebhookDeadLetterList"`

	Entries []deadEntry `json:"entries" required:"true"`
	Cursor  *string     `json:"cursor" required:"true"`
	HasMore bool        `json:"has_more" required:"true"`
}

func (s *Service) deadLetters(ctx context.Context, who authz.Caller, in *deadIn) (out deadPage, err error) {
	scope := page.Scope{Tenant: who.TenantID, List: "webhook_dead_letters"}
	before, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return out, err
	}
	limit := page.Limit(in.Limit, 50, logPage)
	found, err := s.Store.ListDeadLetters(ctx, "", before, limit+1)
	if err != nil {
		return out, err
	}
	found, out.HasMore = page.Cut(found, limit, func(d Dead) int { return len(d.Body) })
	if out.HasMore {
		cursor := s.Cursors.Seal(scope, found[len(found)-1].ID)
		out.Cursor = &cursor
	}
	out.Entries = []deadEntry{}
	for i := range found {
		d := &found[i]
		out.Entries = append(out.Entries, deadEntry{
			EventID: d.EventID, EventType: d.EventType, Payload: d.Body, ErrorMessage: d.Failure, Timestamp: d.CreatedAt,
			TenantID: &d.TenantID, WebhookID: d.WebhookID, DeliveryID: d.ID, Attempts: d.Attempt,
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
	found, err := s.Store.ListDeadLetters(ctx, in.EventID, "", maxHeld)
	if err != nil {
		return answer, err
	}
	if len(found) == 0 {
		return answer, fault.NoSuch("dead letter")
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		sent := 0
		for i := range found {
			d := &found[i]
			sub, err := s.Store.Get(ctx, d.TenantID, d.WebhookID)
			if fault.Is(err, fault.NotFound) || err == nil && sub.Status == Disabled {
				continue
			}
			if err != nil {
				return err
			}
			revived, err := s.Store.ClearDeadTx(tx, d.TenantID, d.WebhookID, d.ID)
			if err != nil {
				return err
			}
			if !revived {
				continue // somebody else was quicker
			}
			if err := s.leave(tx, d.TenantID, s.again(&d.Delivery)); err != nil {
				return err
			}
			sent++
		}
		if sent == 0 {
			return fault.New(fault.Invalid, "", "Nothing was sent: the subscriptions that did not get the event are disabled or gone, or it is being sent to them already.")
		}
		err := audit.Tell(s.Audit, tx, who, audit.Entry{Action: "webhook.replayed", TargetType: "webhook_event", TargetID: in.EventID})
		if err != nil {
			return err
		}
		answer = replayed{Success: true, EventID: in.EventID, Action: "replayed", Message: "The event is sent again to those that did not get it."}
		return txn.Answer(tx, answer)
	})
	return answer, err
}
