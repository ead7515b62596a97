package webhook

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/work"
)

// Event is something that happened. Data returns its data, a JSON object; it is
// called only if a subscription wants the event.
type Event struct {
	TenantID string
	ID       string // "": a new one. An event with an id that is stored is ignored.
	Type     string
	At       time.Time
	Data     func() (jsontext.Value, error)
}

// Emit puts an event into the outbox, in the transaction that makes it true: it
// is delivered if and only if that commits.
func (s *Service) Emit(tx txn.Tx, e Event) error {
	subscribers, err := s.Store.ListSubscribersTx(tx, e.TenantID, e.Type)
	if err != nil || len(subscribers) == 0 {
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
	return s.deliver(tx, &stored, subscribers...)
}

// deliver adds the first attempt of an event for each subscription.
func (s *Service) deliver(tx txn.Tx, e *StoredEvent, subscriptions ...string) error {
	attempts := make([]Attempt, len(subscriptions))
	for i, id := range subscriptions {
		attempts[i] = firstAttempt(id, e.ID, e.Type, e.At)
	}
	return s.addAttempts(tx, e.TenantID, attempts...)
}

func firstAttempt(subscription, eventID, eventType string, at time.Time) Attempt {
	return Attempt{
		ID: ident.New(), SubscriptionID: subscription, EventID: eventID, EventType: eventType,
		Number: 1, State: Pending, Due: at, CreatedAt: at,
	}
}

// addAttempts adds attempts, each of another subscription, and the work items of
// their subscriptions.
func (s *Service) addAttempts(tx txn.Tx, tenant string, all ...Attempt) error {
	if err := s.Store.CreateAttemptsTx(tx, tenant, all); err != nil {
		return err
	}
	items := make([]work.Item, len(all))
	for i := range all {
		items[i] = work.Item{Kind: WorkKind, Key: all[i].SubscriptionID, TenantID: tenant, Due: all[i].Due}
	}
	tx.AfterCommit(func() {
		for i := range items {
			s.dispatchers.wake(items[i].Key)
		}
	})
	return s.Queue.EnqueueTx(tx, items...)
}

// runEvents are the events of the statuses of runs that end or wait for a person. A
// run that neither completed nor was cancelled has failed; its status says how.
var runEvents = map[run.Status]string{
	run.Completed: "run.completed", run.Cancelled: "run.cancelled",
	run.Failed: "run.failed", run.TimedOut: "run.failed", run.GuardrailBlocked: "run.failed", run.Rejected: "run.failed",
	run.AwaitingApproval: "run.awaiting_approval", run.Paused: "run.awaiting_input", run.AuthRequired: "run.auth_required",
}

// maxPart is the size up to which the input and the output of a run are part of
// its event.
const maxPart = 64 << 10

// OnRunState is a run.Watcher: it emits the events of runs that end or wait for a
// person.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	name, known := runEvents[r.Status]
	byHand := r.Status == run.Paused && r.PendingInput == nil // nothing is asked of anybody
	if !known || byHand || r.Options.Sandbox != nil {
		return nil
	}
	return s.Emit(tx, Event{TenantID: r.TenantID, Type: name, At: s.Clock.Now(), Data: func() (jsontext.Value, error) {
		d := RunData{Run: r.Run}
		if len(d.Input) > maxPart {
			d.Input, d.Omitted = nil, append(d.Omitted, "input")
		}
		if len(d.Output) > maxPart {
			d.Output, d.Omitted = nil, append(d.Omitted, "output")
		}
		return json.Marshal(d, encoding)
	}})
}

// Violated emits the event of a guardrail that a run violated.
func (s *Service) Violated(tx txn.Tx, r *run.Record, v policy.Violation) error {
	if r.Options.Sandbox != nil {
		return nil
	}
	return s.Emit(tx, Event{TenantID: r.TenantID, Type: "guardrail.violated", At: s.Clock.Now(), Data: func() (jsontext.Value, error) {
		return json.Marshal(GuardrailData{RunID: r.RunID, Violation: v}, encoding)
	}})
}

var encoding = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
