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
	// callPath is the path of calls, before the sensor's id.
	callPath = "/api/v1/webhooks/sensor/"
	listPath = "/api/v1/webhooks/sensors"

	maxPage     = 500
	defaultPage = 100
	// maxLifetime is how far ahead a sensor's expiry may be.
	maxLifetime = 10 * 365 * 24 * time.Hour
)

// Routes returns the operations on sensors, and the one by which they are called.
func (s *Service) Routes() []route.Route {
	read, write := []authz.Scope{"webhooks:read"}, []authz.Scope{"webhooks:write"}
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: listPath, ID: "createSensor", Tag: "Webhooks", Scopes: write, Role: authz.Admin, Status: 201,
			Fresh: true, Errors: []int{404},
			Summary: "Create a sensor",
			Doc:     "A sensor is a URL whose calls start runs of an agent. Only this response shows the secret that signs the calls.",
		}, s.createRoute),
		route.Action(route.Row{
			Method: "GET", Path: listPath, ID: "listSensors", Tag: "Webhooks", Scopes: read, Role: authz.Viewer,
			Summary: "List sensors, newest first", Doc: "A sensor that takes no more calls is kept for at least 30 days.",
		}, s.list),
		route.Action(route.Row{
			Method: "GET", Path: listPath + "/{sensorId}", ID: "getSensor", Tag: "Webhooks", Scopes: read, Role: authz.Viewer,
			Summary: "Get a sensor", Errors: []int{404}, Conditional: true,
		}, s.get),
		route.Action(route.Row{
			Method: "DELETE", Path: listPath + "/{sensorId}", ID: "deleteSensor", Tag: "Webhooks", Scopes: write, Role: authz.Admin, Fresh: true,
			Summary: "Delete a sensor", Doc: "Succeeds also if it does not exist. Runs that it started continue.",
		}, s.remove),
		route.Action(route.Row{
			Method: "POST", Path: callPath + "{webhookId}", ID: "sensorWebhook", Tag: "Webhooks", Public: true, Refused: "sensor.call_refused",
			Summary: "Call a sensor", Errors: []int{401, 403, 404, 409, 410},
			MaxBytes: MaxBody, Limits: []route.Limit{{N: 1200, Per: time.Minute}},
			Doc: "Starts a run of the sensor's agent and does not wait for it. The body is the payload, of any media type. " +
				"A call that is repeated within 24 hours with the same Webhook-Id, X-SVC-Event-Id " +
				"or X-GitHub-Delivery returns the same run.",
		}, s.receive),
	}
}

type createIn struct{ Body sensorCreate }

type sensorCreate struct {
	_ struct{} `json:"-" name:"SensorCreate"`

	AgentID      string     `json:"agent_id" required:"true" format:"uuid" doc:"The agent that calls run."`
	Instructions string     `json:"instructions" maxLength:"20000" doc:"Instructions to the agent for each call."`
	MaxTriggers  *int64     `json:"max_triggers,omitzero" nullable:"true" minimum:"1" maximum:"1000000" doc:"Maximum number of runs; default: unlimited."`
	ExpiresAt    *time.Time `json:"expires_at,omitzero" nullable:"true" doc:"When it stops taking calls, at most ten years ahead; default: never."`
	Unsigned     bool       `json:"unsigned" default:"false" doc:"Creates no secret: anyone who knows the URL may call it. Requires max_triggers."`
}

func (b *sensorCreate) check(now time.Time) (invalid []fault.Field) {
	if b.Unsigned && b.MaxTriggers == nil {
		invalid = append(invalid, fault.Field{
			Field:   "max_triggers",
			Message: "is required if calls are not signed: limit the runs that anyone may start, or leave unsigned out",
		})
	}
	switch {
	case b.ExpiresAt == nil:
	case !b.ExpiresAt.After(now):
		invalid = append(invalid, fault.Field{Field: "expires_at", Message: "must be in the future"})
	case b.ExpiresAt.Sub(now) > maxLifetime:
		invalid = append(invalid, fault.Field{
			Field:   "expires_at",
			Message: "must be at most ten years ahead; leave it out for a sensor that does not expire",
		})
	}
	return invalid
}

func (s *Service) createRoute(ctx context.Context, who authz.Caller, in *createIn) (*View, error) {
	b := &in.Body
	if invalid := b.check(s.Clock.Now()); invalid != nil {
		return nil, fault.BadFields(invalid...)
	}
	w := newSensor{id: ident.New(), agentID: b.AgentID, instructions: b.Instructions, unsigned: b.Unsigned}
	if b.MaxTriggers != nil {
		w.maxTriggers = *b.MaxTriggers
	}
	if b.ExpiresAt != nil {
		w.expiresAt = b.ExpiresAt.UTC().Truncate(time.Microsecond) // the precision that is stored
	}
	v, err := s.create(ctx, who, w)
	if err == nil && v == nil {
		err = fault.New(fault.Internal, "", "sensor: the new id %s is taken", w.id)
	}
	return v, err
}

type listIn struct {
	Limit  string `query:"limit" doc:"Sensors per page, 1 to 500; default 100."`
	Cursor string `query:"cursor"`
}

// Page is a page of sensors.
type Page struct {
	_ struct{} `json:"-" name:"SensorList"`

	Sensors []*View `json:"sensors" required:"true"`
	Total   int     `json:"total" required:"true" doc:"Number of sensors on all pages."`
	HasMore bool    `json:"has_more" required:"true"`
	Cursor  *string `json:"cursor" required:"true"`
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	scope := page.ScopeOf(who.TenantID, "sensors", in)
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
		return nil, fault.NewNotFound("sensor")
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
			err = s.recordAudit(tx, who, "deleted", in.SensorID, nil)
		}
		if err != nil {
			return err
		}
		return txn.Answer(tx, out)
	})
}
