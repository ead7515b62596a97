package webhook

import (
	"cmp"
	"reflect"
	"time"

	"agentd/internal/base/route"
)

// publishedEnvelope is the published type of what every event has; envelope writes
// it.
type publishedEnvelope struct {
	EventID   string    `json:"event_id" format:"uuid" doc:"Id of the event. It stays the same when the event is sent again."`
	EventType string    `json:"event_type" doc:"The same as type."`
	TenantID  string    `json:"tenant_id" doc:"The company."`
	Timestamp time.Time `json:"timestamp" doc:"When it happened."`
}

var eventDocs = map[string]string{
	"run.completed":      "A run completed.",
	"run.failed":         "A run failed, timed out, was blocked or rejected; its status says which.",
	"run.cancelled":      "A run was cancelled.",
	"quota.threshold":    "80 % of a limit of the plan, or of the budget, are used.",
	"quota.exceeded":     "A limit of the plan, or the budget, is used up.",
	"guardrail.violated": "A guardrail found something in a run.",
}

// published returns the events that this version emits, for the OpenAPI document.
func published(r *Registry) *route.Events {
	e := &route.Events{Name: "WebhookEvent", Tag: "type", Common: reflect.TypeFor[publishedEnvelope](), Nested: true}
	for _, t := range r.Types() {
		if t.Data == nil {
			continue
		}
		e.Of = append(e.Of, route.Event{Name: t.Name, Data: t.Data, Doc: cmp.Or(t.Doc, eventDocs[t.Name], t.Name+" happened.")})
	}
	return e
}
