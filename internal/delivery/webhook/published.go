package webhook

import (
	"reflect"
	"time"

	"agentd/internal/base/route"
)

// Types of the published bodies; envelope writes them.
type (
	publishedEnvelope struct {
		EventID   string    `json:"event_id" format:"uuid" doc:"Id of the event. It stays the same when the event is sent again."`
		EventType string    `json:"event_type" doc:"The same as type."`
		TenantID  string    `json:"tenant_id" doc:"The company."`
		Timestamp time.Time `json:"timestamp" doc:"When it happened."`
	}
	agentDeletedData struct {
		AgentID string `json:"agent_id" format:"uuid" doc:"The agent."`
		Name    string `json:"name" doc:"Its name."`
	}
	quotaData struct {
		Resource string     `json:"resource" doc:"What is limited."`
		Used     float64    `json:"used" doc:"How much is used."`
		Limit    float64    `json:"limit" doc:"How much the plan, or the budget, allows."`
		Percent  float64    `json:"percent" doc:"Used, in percent of the limit."`
		ResetsAt *time.Time `json:"resets_at,omitzero" doc:"When the use is counted from zero again."`
	}
	guardrailData struct {
		RunID       string `json:"run_id" format:"uuid" doc:"The run."`
		GuardrailID string `json:"guardrail_id" doc:"The guardrail."`
		Name        string `json:"name" doc:"Its name."`
		Stage       string `json:"stage" doc:"Where it was checked."`
		Action      string `json:"action" doc:"What it did."`
		Reason      string `json:"reason,omitzero" doc:"What it found, without the text."`
	}
)

// published are the events that are sent today. A body that would be too large has
// less in it, and says so; so nothing of data is required there.
var published = route.Events{
	Name: "WebhookEvent", Tag: "type", Common: reflect.TypeFor[publishedEnvelope](), Nested: true,
	Of: []route.Event{
		{Name: "run.completed", Data: reflect.TypeFor[runData](), Doc: "A run completed."},
		{Name: "run.failed", Data: reflect.TypeFor[runData](), Doc: "A run failed, timed out, was blocked or rejected; its status says which."},
		{Name: "run.cancelled", Data: reflect.TypeFor[runData](), Doc: "A run was cancelled."},
		{Name: "agent.created", Ref: "Agent", Doc: "An agent was created."},
		{Name: "agent.updated", Ref: "Agent", Doc: "An agent was changed, suspended or activated."},
		{Name: "agent.deleted", Data: reflect.TypeFor[agentDeletedData](), Doc: "An agent was deleted."},
		{Name: "quota.threshold", Data: reflect.TypeFor[quotaData](), Doc: "80 % of a limit of the plan, or of the budget, are used."},
		{Name: "quota.exceeded", Data: reflect.TypeFor[quotaData](), Doc: "A limit of the plan, or the budget, is used up."},
		{Name: "guardrail.violated", Data: reflect.TypeFor[guardrailData](), Doc: "A guardrail found something in a run."},
	},
}
