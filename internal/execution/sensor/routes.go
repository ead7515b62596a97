package sensor

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

const (
	// calledAt is where a sensor is called, before its id.
	calledAt = "/api/v1/webhooks/sensor/"
	listed   = "/api/v1/webhooks/sensors"

	maxPage     = 500
	defaultPage = 100
	// farthest is how far ahead a sensor's end may be.
	farthest = 10 * 365 * 24 * time.Hour
)

// Routes lists the operations on sensors, and the calls of them.
func (s *Service) Routes() []route.Route {
	read, write := []authz.Scope{"webhooks:read"}, []authz.Scope{"webhooks:write"}
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: listed, ID: "createSensor", Tag: "Webhooks", Scopes: write, Role: authz.Admin, Status: 201, Errors: []int{404},
			Summary: "Make an address whose calls start runs of an agent",
			Doc:     "The secret that calls are signed with is in this answer and in no other.",
		}, s.createRoute),
		route.Action(route.Row{
			Method: "GET", Path: listed, ID: "listSensors", Tag: "Webhooks", Scopes: read, Role: authz.Viewer,
			Summary: "List sensors, newest first", Doc: "One that takes no more calls is kept for at least 30 days.",
		}, s.list),
		route.Action(route.Row{
			Method: "GET", Path: listed + "/{sensorId}", ID: "getSensor", Tag: "Webhooks", Scopes: read, Role: authz.Viewer,
			Summary: "Read a sensor", Errors: []int{404},
		}, s.get),
		route.Action(route.Row{
			Method: "DELETE", Path: listed + "/{sensorId}", ID: "deleteSensor", Tag: "Webhooks", Scopes: write, Role: authz.Admin,
			Summary: "Take an address away", Doc: "The same where it is gone already. Runs that it started go on.",
		}, s.remove),
		route.Action(route.Row{
			Method: "POST", Path: calledAt + "{webhookId}", ID: "sensorWebhook", Tag: "Webhooks", Public: true,
			Summary: "Start a run of the agent that listens here", Errors: []int{401, 403, 404, 409, 410},
			MaxBytes: MaxBody, Limits: []route.Limit{{N: 1200, Per: time.Minute}},
			Doc: "For other systems. The body is the payload, of any media type. The answer does not wait for the run. " +
				"A call with an id of its own (Idempotency-Key, Webhook-Id, X-SVC-Event-Id or X-GitHub-Delivery) that comes again within 24 hours is answered with the same run.",
		}, s.receive),
	}
}

type createIn struct{ Body sensorCreate }

type sensorCreate struct {
	_ struct{} `json:"-" name:"SensorCreate"`

	AgentID      string     `json:"agent_id" required:"true" format:"uuid" doc:"Whose runs calls start."`
	Instructions string     `json:"instructions" maxLength:"20000" doc:"What the agent is told with each call."`
	MaxTriggers  *int64     `json:"max_triggers,omitzero" nullable:"true" minimum:"1" maximum:"1000000" doc:"How many runs it may start; left out or null: any number."`
	ExpiresAt    *time.Time `json:"expires_at,omitzero" nullable:"true" doc:"When it stops taking calls, at most ten years ahead; left out or null: never."`
	Unsigned     bool       `json:"unsigned" default:"false" doc:"There is no secret: whoever knows the address may call. It then needs max_triggers."`
}

func (b *sensorCreate) check(now time.Time) (wrong []fault.Field) {
	if b.Unsigned && b.MaxTriggers == nil {
		wrong = append(wrong, fault.Field{Field: "max_triggers", Message: "is required if calls are not signed: say how many runs strangers may start, or leave unsigned out"})
	}
	switch {
	case b.ExpiresAt == nil:
	case !b.ExpiresAt.After(now):
		wrong = append(wrong, fault.Field{Field: "expires_at", Message: "must be in the future"})
	case b.ExpiresAt.Sub(now) > farthest:
		wrong = append(wrong, fault.Field{Field: "expires_at", Message: "must be at most ten years ahead; leave it out for no end"})
	}
	return wrong
}

func (s *Service) createRoute(ctx context.Context, who authz.Caller, in *createIn) (*View, error) {
	b := &in.Body
	if wrong := b.check(s.Clock.Now()); wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	w := wish{id: ident.New(), agentID: b.AgentID, instructions: b.Instructions, unsigned: b.Unsigned}
	if b.MaxTriggers != nil {
		w.maxTriggers = *b.MaxTriggers
	}
	if b.ExpiresAt != nil {
		w.expiresAt = b.ExpiresAt.UTC().Truncate(time.Microsecond) // as it is stored
	}
	v, err := s.create(ctx, who, w)
	if err == nil && v == nil {
		err = fault.New(fault.Internal, "", "sensor: the new id %s is taken", w.id)
	}
	return v, err
}

type listIn struct {
	Limit  string `query:"limit" doc:"Sensors per page, 1 to 500; 100 if it is left out."`
	Cursor string `query:"cursor"`
}

// Page is a list of sensors.
type Page struct {
	_ struct{} `json:"-" name:"SensorList"`

	Sensors []*View `json:"sensors" required:"true"`
	Total   int     `json:"total" required:"true" doc:"How many there are on all pages."`
	HasMore bool    `json:"has_more" required:"true"`
	Cursor  *string `json:"cursor" required:"true"`
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	scope := page.Scope{Tenant: who.TenantID, List: "sensors"}
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	p := &Page{Sensors: []*View{}}
	if p.Total, err = s.Store.Count(ctx, who.TenantID); err != nil {
		return nil, err
	}
	limit := page.Limit(in.Limit, defaultPage, maxPage)
	all, err := s.Store.List(ctx, who.TenantID, after, limit+1)
	if err != nil {
		return nil, err
	}
	if p.HasMore = len(all) > limit; p.HasMore {
		all = all[:limit]
		next := s.Cursors.Seal(scope, all[limit-1].ID)
		p.Cursor = &next
	}
	for i := range all {
		p.Sensors = append(p.Sensors, s.view(&all[i]))
	}
	return p, nil
}

type sensorIn struct {
	SensorID string `path:"sensorId"`
}

func (s *Service) get(ctx context.Context, who authz.Caller, in *sensorIn) (*View, error) {
	of, err := s.Store.Get(ctx, who.TenantID, in.SensorID)
	if err != nil {
		return nil, err
	}
	if of == nil {
		return nil, fault.NoSuch("sensor")
	}
	return s.view(of), nil
}

type deleted struct {
	_ struct{} `json:"-" name:"SensorDeleted"`

	Deleted   bool   `json:"deleted" required:"true"`
	WebhookID string `json:"webhook_id" format:"uuid" required:"true"`
}

func (s *Service) remove(ctx context.Context, who authz.Caller, in *sensorIn) (deleted, error) {
	out := deleted{Deleted: true, WebhookID: in.SensorID}
	return out, s.Writer.Write(ctx, func(tx txn.Tx) error {
		found, err := s.Store.DeleteTx(tx, who.TenantID, in.SensorID)
		if err == nil && found {
			err = s.note(tx, who, "deleted", in.SensorID, nil)
		}
		if err != nil {
			return err
		}
		return txn.Answer(tx, out)
	})
}
