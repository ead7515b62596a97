package initiative

import (
	"context"
	"strconv"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/resource"
	kernelwork "agentd/internal/kernel/work"
	"agentd/internal/teams/objective"
)

// WorkKind is the kind of work that drives initiatives; the key is the initiative's id.
const WorkKind = "initiative"

// State is how far an initiative is.
type State struct {
	TaskSeq   int       `json:"task_seq,omitzero"`
	Seq       int       `json:"seq,omitzero"` // of the last objective
	KeyID     string    `json:"key_id,omitzero"`
	UserID    string    `json:"user_id,omitzero"`
	NextTick  time.Time `json:"next_tick"`
	Ticks     int       `json:"ticks,omitzero"`
	Failures  int       `json:"failures,omitzero"` // ticks in a row whose plan could not be used
	Feedback  string    `json:"feedback,omitzero"` // why the last one could not
	Sources   []string  `json:"sources,omitzero"`  // untrusted ones that the strategist has read
	Day       string    `json:"day,omitzero"`      // whose budget there is
	Alerted   bool      `json:"alerted,omitzero"`  // of the total
	DayAlert  string    `json:"day_alert,omitzero"`
	DaySpent  string    `json:"day_spent,omitzero"` // the day whose limit is used up
	Status    string    `json:"status"`             // as the events have told it
	TotalUSD  float64   `json:"total_usd"`
	DailyUSD  float64   `json:"daily_usd"`
	Threshold float64   `json:"threshold"`
}

// Record is a State as it is stored.
type Record struct {
	State    State
	Asked    int64 // how often callers asked for something
	TickNow  bool  // a caller asked for a tick
	EventSeq int64
}

// Store keeps how far initiatives are.
type Store interface {
	CreateTx(tx txn.Tx, tenant, id string, s *State) error
	// UpdateTx stores the state and the number of the last event. tick is whether what a
	// caller asked for with TickNow was done. Errors: fault.NotFound.
	UpdateTx(tx txn.Tx, tenant, id string, s *State, eventSeq int64, tick bool) error
	// RequestTx notes that a caller asked for something, or for a tick. Errors: fault.NotFound.
	RequestTx(tx txn.Tx, tenant, id string, tick bool) error
	// CountRequestsTx returns how often callers did.
	CountRequestsTx(tx txn.Tx, tenant, id string) (int64, error)
	// LockTx locks an initiative. Errors: objective.ErrOver where it was deleted.
	LockTx(tx txn.Tx, tenant, id string) error
	// Get returns a record. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (*Record, error)
	// DeleteTx deletes a record, and returns the number of its last event.
	DeleteTx(tx txn.Tx, tenant, id string) (int64, error)
}

// Agents is the port to agents.
type Agents interface {
	// CreateTx makes an agent with the default model.
	CreateTx(tx txn.Tx, who authz.Caller, name, prompt string) (id string, err error)
	// CheckTx reports whether a company has an agent. Errors: fault.NotFound.
	CheckTx(tx txn.Tx, tenant, id string) error
	// DeleteNamedTx deletes an agent whose name still ends so.
	DeleteNamedTx(tx txn.Tx, who authz.Caller, id, suffix string) error
	// Children returns the agents that an agent made, oldest first.
	Children(ctx context.Context, tenant, id string) ([]string, error)
}

// Deps are what initiatives need of others.
type Deps struct {
	Crew      *objective.Crew
	States    Store
	Agents    Agents
	Team      func(tx txn.Tx, tenant, id string) error
	Workspace func(tx txn.Tx, tenant, id string) error
	// Cron returns the times of a schedule. Errors are sentences for callers.
	Cron func(expression, zone string) (func(time.Time) time.Time, error)
	// Suspended reports whether a company is suspended: its initiatives begin nothing.
	Suspended func(ctx context.Context, tenant string) (bool, error)
	// NotifyTx notifies the people of a company.
	NotifyTx func(tx txn.Tx, tenant string, n Notice) error
	Cursors  *page.Cursors
}

// Notice is what people are notified of.
type Notice struct {
	InitiativeID, Title, Message, Key string
	Critical                          bool
}

// Service keeps and pursues initiatives.
type Service struct {
	Deps
	kernel resource.Deps
	store  *resource.Store[Initiative] // for callers
	inner  *resource.Store[Initiative] // for the worker: no hooks, no changes, no audit
}

// New returns the initiatives.
func New(kernel resource.Deps, d Deps) *Service {
	s := &Service{Deps: d, kernel: kernel}
	s.store = resource.NewStore(s.kind(true), kernel)
	silent := kernel
	silent.Outbox, silent.Audit = resource.NoOutbox{}, nil
	s.inner = resource.NewStore(s.kind(false), silent)
	registerEvents(kernel.Events)
	return s
}

// Resources returns what keeps their configuration.
func (s *Service) Resources() *resource.Store[Initiative] { return s.store }

// after stores along with a write of a caller what follows from it.
func (s *Service) after(e *resource.Edit[Initiative]) error {
	tenant := e.Who.TenantID
	switch e.Action {
	case resource.Created:
		i := e.New
		state := State{
			KeyID: e.Who.KeyID, UserID: e.Who.UserID, NextTick: s.nextTick(i, i.CreatedAt), Status: Active, TotalUSD: i.Budget.TotalUSD,
			DailyUSD: i.Budget.DailyUSD, Threshold: i.Budget.AlertAtPct,
		}
		if err := s.States.CreateTx(e.Tx, tenant, i.ID, &state); err != nil {
			return err
		}
		if err := s.Crew.Purse.PutBudgetTx(e.Tx, tenant, i.ID, run.NanoUSD(i.Budget.TotalUSD)); err != nil {
			return err
		}
		return s.Crew.Queue.EnqueueTx(e.Tx, s.item(tenant, i.ID, state.NextTick))
	case resource.Deleted:
		return s.deletedTx(e)
	}
	if err := s.Crew.Purse.PutBudgetTx(e.Tx, tenant, e.New.ID, run.NanoUSD(e.New.Budget.TotalUSD)); err != nil {
		return err
	}
	return s.askTx(e.Tx, tenant, e.New.ID, false)
}

// askTx wakes the worker of an initiative.
func (s *Service) askTx(tx txn.Tx, tenant, id string, tick bool) error {
	if err := s.States.RequestTx(tx, tenant, id, tick); err != nil {
		return err
	}
	return s.Crew.Queue.EnqueueTx(tx, s.item(tenant, id, s.Crew.Clock.Now()))
}

func (s *Service) item(tenant, id string, due time.Time) kernelwork.Item {
	return kernelwork.Item{Kind: WorkKind, Key: id, TenantID: tenant, Due: due}
}

// deletedTx deletes what belongs to an initiative, has its runs cancelled, and ends its
// event stream.
func (s *Service) deletedTx(e *resource.Edit[Initiative]) error {
	tenant, id := e.Who.TenantID, e.Old.ID
	seq, err := s.States.DeleteTx(e.Tx, tenant, id)
	if err != nil {
		return err
	}
	open, err := s.Crew.Store.DeleteTx(e.Tx, tenant, id)
	if err != nil {
		return err
	}
	if err := s.Crew.AbandonTx(e.Tx, tenant, open); err != nil {
		return err
	}
	for _, budget := range []string{id, dayBudget(id, day(s.Crew.Clock.Now()))} {
		if err := s.Crew.Purse.DeleteBudgetTx(e.Tx, tenant, budget); err != nil {
			return err
		}
	}
	if err := s.Agents.DeleteNamedTx(e.Tx, e.Who, e.Old.StrategistAgentID, strategistSuffix); err != nil {
		return err
	}
	last := event.Entry{Name: "initiative.deleted", At: s.Crew.Clock.Now(), Data: []byte("{}")}
	if err := s.Crew.Log.Append(tenant, id, event.Segment{First: seq + 1, Entries: []event.Entry{last}})(e.Tx); err != nil {
		return err
	}
	e.Tx.AfterCommit(func() {
		s.Crew.Hub.Publish(event.Batch{
			Stream: id, Prev: seq, Final: true, Events: []event.Event{{Seq: seq + 1, Name: last.Name, At: last.At, Data: last.Data}},
		})
	})
	return nil
}

// nextTick returns the first time of the schedule after a moment.
func (s *Service) nextTick(i *Initiative, after time.Time) time.Time {
	next, err := s.Cron(i.Config.Schedule, i.Config.Timezone)
	if err != nil { // it was valid when it was stored; time zones may have changed since
		return after.Add(time.Hour)
	}
	return next(after)
}

// day returns the day in UTC whose limit binds at a moment.
func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// dayBudget is the id of the budget of one day.
func dayBudget(id, day string) string { return ident.Derive(id, "day", day) }

func goalField(n int, field string) string {
	return "strategic_goals[" + strconv.Itoa(n) + "]." + field
}

// SetStatus pauses or resumes an initiative.
func (s *Service) setStatus(ctx context.Context, who authz.Caller, id, status string) error {
	ctx = txn.WithAnswer(ctx, func() any { return statusView{Status: status} })
	return s.Crew.Writer.Write(ctx, func(tx txn.Tx) error {
		i, err := s.store.GetTx(tx, who.TenantID, id)
		if err != nil || i.Status == status {
			return err
		}
		i, err = s.store.UpdateTx(tx, who, id, func(i *Initiative) error {
			i.Status, i.StatusReason = status, ""
			if status == Paused {
				i.StatusReason = "by_caller"
			}
			return nil
		})
		if err != nil || status != Paused {
			return err
		}
		return s.emitTx(tx, i, EventPaused, pausedData{Ref: refOf(i), Reason: "by_caller"})
	})
}

// Name returns what an initiative is called. Errors: fault.NotFound.
func (s *Service) Name(ctx context.Context, tenant, id string) (string, error) {
	i, err := s.inner.Get(ctx, tenant, id)
	return i.Name, err
}
