package webhook

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/work"
)

// Names are the events that a subscription may name (interface.md section 6).
var Names = []string{
	"run.completed", "run.failed", "run.cancelled",
	"agent.created", "agent.updated", "agent.deleted",
	"quota.threshold", "quota.exceeded",
	"guardrail.violated", "eval.auto_rollback",
	"billing.invoice.created", "billing.payment.failed",
	"initiative.budget_alert", "initiative.budget_exceeded", "initiative.objective_failed", "initiative.goal_completed", "initiative.paused",
}

// canonical gives the name under which an event is stored: initiatives were
// called companies once. ok is false for what is no event.
func canonical(name string) (string, bool) {
	if rest, old := strings.CutPrefix(name, "company."); old {
		name = "initiative." + rest
	}
	return name, slices.Contains(Names, name)
}

// Event is something that happened. Data makes its data, a JSON object, and is
// asked only where somebody wants the event.
type Event struct {
	TenantID string
	ID       string // "": a new one. An event with the id of another is left out.
	Type     string
	At       time.Time
	Data     func() (jsontext.Value, error)
}

// Emit puts an event into the outbox, in the transaction that makes it true: it
// is delivered if and only if that commits.
func (s *Service) Emit(tx txn.Tx, e Event) error {
	wanting, err := s.Store.ListSubscribersTx(tx, e.TenantID, e.Type)
	if err != nil || len(wanting) == 0 {
		return err
	}
	stored, err := render(e)
	if err != nil {
		return err
	}
	added, err := s.Store.CreateEventTx(tx, stored)
	if err != nil || !added {
		return err
	}
	return s.deliver(tx, &stored, wanting...)
}

// deliver leaves a first attempt at an event for receivers.
func (s *Service) deliver(tx txn.Tx, e *Stored, webhooks ...string) error {
	first := make([]Delivery, len(webhooks))
	for i, id := range webhooks {
		first[i] = Delivery{ID: ident.New(), WebhookID: id, EventID: e.ID, EventType: e.Type, Attempt: 1, State: Pending, Due: e.At, CreatedAt: e.At}
	}
	return s.leave(tx, e.TenantID, first...)
}

// leave leaves attempts to be made, each for another receiver.
func (s *Service) leave(tx txn.Tx, tenant string, all ...Delivery) error {
	if err := s.Store.CreateDeliveriesTx(tx, tenant, all); err != nil {
		return err
	}
	items := make([]work.Item, len(all))
	for i := range all {
		items[i] = work.Item{Kind: WorkKind, Key: all[i].WebhookID, TenantID: tenant, Due: all[i].Due}
	}
	tx.AfterCommit(func() {
		for i := range items {
			s.lanes.nudge(items[i].Key)
		}
	})
	return s.Queue.EnqueueTx(tx, items...)
}

// runEvents are the events of the states that a run ends in. What did not come
// to its end by itself or by a person's will has failed; its status says how.
var runEvents = map[run.Status]string{
	run.Completed: "run.completed", run.Cancelled: "run.cancelled",
	run.Failed: "run.failed", run.TimedOut: "run.failed", run.GuardrailBlocked: "run.failed", run.Rejected: "run.failed",
}

// maxPart is how large a run's input and output may be to be part of an event.
const maxPart = 64 << 10

// runData is a run, without what is too large to be sent around, and without
// its files, which this transaction may still be writing.
type runData struct {
	run.Run
	Artifacts *struct{} `json:"artifacts,omitzero"`
	Omitted   []string  `json:"omitted,omitzero"`
}

// OnRunState is a run.Watcher: it tells of runs that ended.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	name, ended := runEvents[r.Status]
	if !ended {
		return nil
	}
	return s.Emit(tx, Event{TenantID: r.TenantID, Type: name, At: s.Clock.Now(), Data: func() (jsontext.Value, error) {
		d := runData{Run: r.Run}
		if len(d.Input) > maxPart {
			d.Input, d.Omitted = nil, append(d.Omitted, "input")
		}
		if len(d.Output) > maxPart {
			d.Output, d.Omitted = nil, append(d.Omitted, "output")
		}
		return json.Marshal(d, encoding)
	}})
}

// Violated tells of a guardrail that a run ran into (decisions.md D9).
func (s *Service) Violated(tx txn.Tx, r *run.Record, v policy.Violation) error {
	return s.Emit(tx, Event{TenantID: r.TenantID, Type: "guardrail.violated", At: s.Clock.Now(), Data: func() (jsontext.Value, error) {
		return json.Marshal(struct {
			RunID string `json:"run_id"`
			policy.Violation
		}{r.RunID, v}, encoding)
	}})
}

var encoding = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
