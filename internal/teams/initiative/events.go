package initiative

import (
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// The webhook events.
const (
	EventAlert    = "initiative.budget_alert"
	EventExceeded = "initiative.budget_exceeded"
	EventFailed   = "initiative.objective_failed"
	EventGoal     = "initiative.goal_completed"
	EventPaused   = "initiative.paused"
)

type (
	// Ref is what the data of all events begin with.
	Ref struct {
		InitiativeID string `json:"initiative_id" format:"uuid"`
		CompanyID    string `json:"company_id" format:"uuid" doc:"The same as initiative_id."`
		Name         string `json:"name"`
	}
	budgetData struct {
		_ struct{} `json:"-" name:"WebhookInitiativeBudgetData"`

		Ref
		Budget   string  `json:"budget" enum:"total,daily" doc:"Which limit it is."`
		SpentUSD float64 `json:"spent_usd"`
		LimitUSD float64 `json:"limit_usd"`
		Percent  float64 `json:"percent" doc:"How much of the limit is used."`
	}
	objectiveData struct {
		_ struct{} `json:"-" name:"WebhookInitiativeObjectiveData"`

		Ref
		ObjectiveID string `json:"objective_id" format:"uuid"`
		Title       string `json:"title"`
		Reason      string `json:"abort_reason"`
		Details     string `json:"details"`
	}
	goalData struct {
		_ struct{} `json:"-" name:"WebhookInitiativeGoalData"`

		Ref
		GoalID string `json:"goal_id"`
		Title  string `json:"title"`
	}
	pausedData struct {
		_ struct{} `json:"-" name:"WebhookInitiativePausedData"`

		Ref
		Reason string `json:"reason" enum:"by_caller,budget_exceeded"`
	}
)

func registerEvents(e resource.Emitter) {
	if e == nil {
		return
	}
	e.Register(EventAlert, "An initiative has used as much of its budget, or of its daily limit, as alert_threshold_pct says.",
		reflect.TypeFor[budgetData]())
	e.Register(EventExceeded, "The budget of an initiative, or its daily limit, is used up.", reflect.TypeFor[budgetData]())
	e.Register(EventFailed, "An objective of an initiative was given up.", reflect.TypeFor[objectiveData]())
	e.Register(EventGoal, "A strategic goal of an initiative was found reached.", reflect.TypeFor[goalData]())
	e.Register(EventPaused, "An initiative was paused, by a caller or because its budget is used up.", reflect.TypeFor[pausedData]())
}

func refOf(i *Initiative) Ref { return Ref{i.ID, i.ID, i.Name} }

// emitTx stores a webhook event.
func (s *Service) emitTx(tx txn.Tx, i *Initiative, name string, data any) error {
	if s.kernel.Events == nil {
		return nil
	}
	return s.kernel.Events.EmitTx(tx, resource.Event{
		TenantID: i.TenantID, Type: name, At: s.Crew.Clock.Now(),
		Data: func() (jsontext.Value, error) { return json.Marshal(data) },
	})
}
