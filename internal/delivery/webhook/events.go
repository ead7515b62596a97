package webhook

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
)

// EventType is an event that subscriptions can name.
type EventType struct {
	Name string
	// Data is the Go type of the event's data, for its schema; nil if this version
	// does not emit the event.
	Data reflect.Type
	Doc  string // one sentence, published
}

// Registry holds the event types that subscriptions can name. Register types
// before the first request; after that it may be used concurrently.
type Registry struct{ types []EventType }

// NewRegistry returns a Registry with the event types of the contract, in their
// published order. The types of agents have no data until their kind registers
// them; see ResourceEvents.
func NewRegistry() *Registry {
	r := &Registry{}
	for _, name := range []string{"run.completed", "run.failed", "run.cancelled"} {
		r.Register(EventType{Name: name, Data: reflect.TypeFor[RunData]()})
	}
	r.Register(
		EventType{"run.awaiting_approval", reflect.TypeFor[RunData](), "A run waits until a person approves or rejects a tool call."},
		EventType{"run.awaiting_input", reflect.TypeFor[RunData](), "A run waits for the answer to its question."},
		EventType{"run.auth_required", reflect.TypeFor[RunData](), "A run waits for a person's authorization at an MCP server."},
	)
	r.Register(
		EventType{Name: "agent.created"}, EventType{Name: "agent.updated"}, EventType{Name: "agent.deleted"},
		EventType{Name: "quota.threshold", Data: reflect.TypeFor[QuotaData]()},
		EventType{Name: "quota.exceeded", Data: reflect.TypeFor[QuotaData]()},
		EventType{Name: "guardrail.violated", Data: reflect.TypeFor[GuardrailData]()},
		EventType{Name: "eval.auto_rollback", Data: reflect.TypeFor[RollbackData]()},
	)
	for _, name := range []string{
		"billing.invoice.created", "billing.payment.failed",
		"initiative.budget_alert", "initiative.budget_exceeded", "initiative.objective_failed", "initiative.goal_completed", "initiative.paused",
	} {
		r.Register(EventType{Name: name})
	}
	return r
}

// Register adds event types. A type that is registered again replaces the data
// type of the one with its name.
func (r *Registry) Register(types ...EventType) {
	for _, t := range types {
		i := slices.IndexFunc(r.types, func(known EventType) bool { return known.Name == t.Name })
		if i < 0 {
			r.types = append(r.types, t)
		} else {
			r.types[i] = t
		}
	}
}

// Types returns the event types, in the order of their registration.
func (r *Registry) Types() []EventType { return slices.Clone(r.types) }

// Names returns the names of the event types, in the order of their registration.
func (r *Registry) Names() []string {
	names := make([]string, len(r.types))
	for i, t := range r.types {
		names[i] = t.Name
	}
	return names
}

// canonical returns the name under which an event is stored, and whether the
// event exists. Initiatives were once called companies.
func (r *Registry) canonical(name string) (string, bool) {
	if rest, old := strings.CutPrefix(name, "company."); old {
		name = "initiative." + rest
	}
	return name, slices.ContainsFunc(r.types, func(t EventType) bool { return t.Name == name })
}

// RunData is the data of the events of runs: the run without its artifacts, which
// its last transaction may still be writing, and without an input or output over
// 64 KiB.
type RunData struct {
	_ struct{} `json:"-" name:"WebhookRunData"`

	run.Run
	Artifacts *struct{} `json:"artifacts,omitzero"`
	Omitted   []string  `json:"omitted,omitzero" doc:"Fields that were too large: input, output."`
}

// QuotaData is the data of quota.threshold and quota.exceeded.
type QuotaData struct {
	_ struct{} `json:"-" name:"WebhookQuotaData"`

	Resource string    `json:"resource"`
	Used     float64   `json:"used" doc:"US dollars for a budget, otherwise a count."`
	Limit    float64   `json:"limit"`
	Percent  int64     `json:"percent" doc:"How much of the limit is used, rounded down."`
	ResetsAt time.Time `json:"resets_at"`
}

// RollbackData is the data of eval.auto_rollback.
type RollbackData struct {
	_ struct{} `json:"-" name:"WebhookEvalRollbackData"`

	EvalRunID         string  `json:"eval_run_id"`
	AgentID           string  `json:"agent_id"`
	DatasetID         string  `json:"dataset_id"`
	FromVersion       string  `json:"from_version" doc:"The version that did worse."`
	ToVersion         string  `json:"to_version" doc:"The version whose configuration is in effect again."`
	NewVersion        string  `json:"new_version" doc:"The version that the rollback made."`
	BaselineEvalRunID string  `json:"baseline_eval_run_id"`
	PassRate          float64 `json:"pass_rate"`
	BaselinePassRate  float64 `json:"baseline_pass_rate"`
}

// GuardrailData is the data of guardrail.violated.
type GuardrailData struct {
	_ struct{} `json:"-" name:"WebhookGuardrailData"`

	RunID string `json:"run_id"`
	policy.Violation
}
