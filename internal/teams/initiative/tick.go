package initiative

import (
	"context"
	"errors"
	"slices"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	kernelwork "agentd/internal/kernel/work"
	"agentd/internal/teams/group"
	"agentd/internal/teams/objective"
)

// strategy is the purpose of the tasks of strategists.
const strategy = "strategy"

// drive is one worker's holding of an initiative.
type drive struct {
	*Service
	objective.Drive
	i       *Initiative
	rec     *Record
	ticked  bool                    // what TickNow asked for was done
	changes []func(i *Initiative)   // to the resource, in the next commit
	added   []objective.Objective   // in the next commit
	dropped []string                // ids of objectives, in the next commit
	emits   []func(tx txn.Tx) error // webhook events and notices, in the next commit
	day     string
}

// Handle is the work.Handler of WorkKind.
func (s *Service) Handle(ctx context.Context, held kernelwork.Lease) error {
	d, err := s.load(ctx, held)
	if err == nil {
		err = d.step()
	}
	if fault.Is(err, fault.NotFound) || errors.Is(err, objective.ErrOver) { // it was deleted
		return s.Crew.Writer.Write(ctx, func(tx txn.Tx) error { return s.Crew.Queue.FinishTx(tx, held) })
	}
	return err
}

func (s *Service) load(ctx context.Context, held kernelwork.Lease) (*drive, error) {
	i, err := s.inner.Get(ctx, held.TenantID, held.Key)
	if err != nil {
		return nil, err
	}
	rec, err := s.States.Get(ctx, held.TenantID, held.Key)
	if err != nil {
		return nil, err
	}
	now := s.Crew.Clock.Now()
	d := &drive{Service: s, i: i, rec: rec, day: day(now)}
	d.Drive = objective.Drive{
		Crew: s.Crew, Ctx: ctx, Held: held, TaskSeq: &rec.State.TaskSeq,
		Owner: objective.Owner{
			TenantID: i.TenantID, ID: i.ID, Kind: "initiative", WorkKind: WorkKind, KeyID: rec.State.KeyID, UserID: rec.State.UserID,
			Lead: i.StrategistAgentID, Budgets: []string{i.ID, dayBudget(i.ID, d.day)},
			LockTx: func(tx txn.Tx) error { return s.States.LockTx(tx, held.TenantID, held.Key) },
		},
		Set: objective.Set{
			Frame: i.Mission, Worker: i.StrategistAgentID, Judge: i.Config.JudgeAgentID,
			Sources: rec.State.Sources, MaxConcurrency: i.Config.MaxConcurrency, MaxStrikes: i.Config.MaxStrikes,
		},
		Journal: group.Journal{
			Log: s.Crew.Log, Hub: s.Crew.Hub, Clock: s.Crew.Clock, Tenant: i.TenantID, Stream: i.ID, Seq: &rec.EventSeq,
			Tell: s.Crew.Tell,
		},
	}
	if d.Judge == "" {
		d.Judge = i.StrategistAgentID
	}
	if i.WorkspaceID != nil {
		d.Owner.Workspace = *i.WorkspaceID
	}
	d.Changed = d.objectiveChanged
	if d.Objectives, err = s.Crew.Store.List(ctx, i.TenantID, i.ID); err != nil {
		return nil, err
	}
	d.Tasks, err = s.Crew.Store.ListOpenTasks(ctx, i.TenantID, i.ID)
	return d, err
}

// step looks what has ended, stores what follows, and starts it.
func (d *drive) step() error {
	if err := d.Observe(); err != nil {
		return err
	}
	d.tell()
	suspended, err := d.Suspended(d.Ctx, d.TenantID)
	if err != nil {
		return err
	}
	if err := d.openDay(); err != nil {
		return err
	}
	spent, err := d.account()
	if err != nil {
		return err
	}
	if err := d.planned(); err != nil {
		return err
	}
	d.Hold = suspended || d.i.Status == Paused || d.rec.State.DaySpent == d.day
	if err := d.Advance(); err != nil {
		return err
	}
	if d.Broke {
		d.exceeded(spent)
		d.Hold = true
	}
	if !d.Hold {
		d.tick()
	}
	if d.Planned() {
		if err := d.store(func(tx txn.Tx) error { return d.Queue.HoldTx(tx, d.Held, d.Crew.Lease) }); err != nil {
			return err
		}
	}
	ended, err := d.Start()
	if err != nil {
		return err
	}
	return d.store(func(tx txn.Tx) error {
		return d.WaitTx(tx, d.wake(), ended, func(tx txn.Tx) (bool, error) {
			asked, err := d.States.CountRequestsTx(tx, d.TenantID, d.ID)
			return asked != d.rec.Asked, err
		})
	})
}

// wake returns when the next tick is due, or the next day begins.
func (d *drive) wake() time.Time {
	now := d.Clock.Now()
	if d.rec.State.DaySpent == d.day {
		return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
	if d.Hold || d.thinking() {
		return time.Time{}
	}
	return d.rec.State.NextTick
}

// tell emits what callers changed.
func (d *drive) tell() {
	s := &d.rec.State
	if s.Status != d.i.Status {
		name := "initiative.resumed"
		if d.i.Status == Paused {
			name = EventPaused
		}
		s.Status = d.i.Status
		d.Journal.Emit(name, map[string]any{"reason": d.i.StatusReason})
	}
	b := &d.i.Budget
	if s.TotalUSD != b.TotalUSD || s.DailyUSD != b.DailyUSD || s.Threshold != b.AlertAtPct {
		s.TotalUSD, s.DailyUSD, s.Threshold = b.TotalUSD, b.DailyUSD, b.AlertAtPct
		s.Alerted, s.DayAlert, s.DaySpent, s.Day = false, "", "", ""
		d.Journal.Emit("initiative.budget_updated", map[string]any{
			"total_usd": b.TotalUSD, "daily_limit_usd": b.DailyUSD, "alert_threshold_pct": b.AlertAtPct,
		})
	}
}

// openDay makes the budget of the day, and takes that of an earlier one away once
// nothing spends from it.
func (d *drive) openDay() error {
	s := &d.rec.State
	if s.Day == d.day {
		return nil
	}
	s.Day = d.day
	limit := run.NanoUSD(d.i.Budget.DailyUSD)
	d.Then(func(tx txn.Tx) error { return d.Purse.PutBudgetTx(tx, d.TenantID, dayBudget(d.ID, d.day), limit) })
	return nil
}

// spending is what was spent, in US dollars.
type spending struct{ total, today float64 }

// account notes what was spent, and emits what follows.
func (d *drive) account() (sp spending, err error) {
	for id, usd := range map[string]*float64{d.ID: &sp.total, dayBudget(d.ID, d.day): &sp.today} {
		nano, err := d.Purse.Spent(d.Ctx, d.TenantID, id)
		if err != nil {
			return sp, err
		}
		*usd = float64(nano) / 1e9
	}
	b, s := &d.i.Budget, &d.rec.State
	if sp.total != b.SpentUSD {
		b.SpentUSD = sp.total
		d.change(func(i *Initiative) { i.Budget.SpentUSD = sp.total })
	}
	if at := b.AlertAtPct; at > 0 {
		if !s.Alerted && b.TotalUSD > 0 && sp.total >= b.TotalUSD*at/100 {
			s.Alerted = true
			d.budgetEvent(EventAlert, "total", sp.total, b.TotalUSD)
		}
		if s.DayAlert != d.day && b.DailyUSD > 0 && sp.today >= b.DailyUSD*at/100 {
			s.DayAlert = d.day
			d.budgetEvent(EventAlert, "daily", sp.today, b.DailyUSD)
		}
	}
	if d.i.Status == Active && (sp.total > 0 && sp.total >= b.TotalUSD || sp.today > 0 && sp.today >= b.DailyUSD) {
		d.exceeded(sp)
	}
	return sp, nil
}

// exceeded stops what a budget does not pay for: until the next day, or until a caller
// raises the total and resumes the initiative.
func (d *drive) exceeded(sp spending) {
	b, s := &d.i.Budget, &d.rec.State
	if b.TotalUSD-sp.total > b.DailyUSD-sp.today {
		if s.DaySpent != d.day {
			s.DaySpent = d.day
			d.budgetEvent(EventExceeded, "daily", sp.today, b.DailyUSD)
		}
		return
	}
	if d.i.Status == Paused {
		return
	}
	d.i.Status, d.i.StatusReason, s.Status = Paused, "budget_exceeded", Paused
	d.change(func(i *Initiative) { i.Status, i.StatusReason = Paused, "budget_exceeded" })
	d.budgetEvent(EventExceeded, "total", sp.total, b.TotalUSD)
	d.emit(EventPaused, pausedData{Ref: refOf(d.i), Reason: "budget_exceeded"}, map[string]any{"reason": "budget_exceeded"})
}

// budgetEvent emits an event about a limit, to streams, webhooks and people.
func (d *drive) budgetEvent(name, which string, spent, limit float64) {
	data := budgetData{Ref: refOf(d.i), Budget: which, SpentUSD: spent, LimitUSD: limit}
	if limit > 0 {
		data.Percent = spent / limit * 100
	}
	d.emit(name, data, map[string]any{"budget": which, "spent_usd": spent, "limit_usd": limit})
	title := "An initiative used much of its budget: " + d.i.Name
	if name == EventExceeded {
		title = "The budget of an initiative is used up: " + d.i.Name
	}
	d.notify(Notice{
		Title: title, Message: budgetSentence(which, spent, limit), Key: name + "/" + which + "/" + d.day, Critical: name == EventExceeded,
	})
}

// emit stores a webhook event with the next commit, and an event of the stream.
func (d *drive) emit(name string, data any, shown map[string]any) {
	d.emits = append(d.emits, func(tx txn.Tx) error { return d.emitTx(tx, d.i, name, data) })
	d.Journal.Emit(name, shown)
}

func (d *drive) notify(n Notice) {
	n.InitiativeID = d.ID
	d.emits = append(d.emits, func(tx txn.Tx) error { return d.NotifyTx(tx, d.TenantID, n) })
}

func (d *drive) change(do func(i *Initiative)) { d.changes = append(d.changes, do) }

// objectiveChanged emits that an objective has another status.
func (d *drive) objectiveChanged(o *objective.Objective, from string) {
	d.Journal.Emit("objective_change", map[string]any{"objective_id": o.ID, "title": o.Plan.Title, "from": from, "to": o.State.Status})
	if o.State.Status != objective.Failed {
		return
	}
	data := objectiveData{Ref: refOf(d.i), ObjectiveID: o.ID, Title: o.Plan.Title, Reason: o.State.Abort, Details: o.State.Details}
	d.emit(EventFailed, data, map[string]any{"objective_id": o.ID, "abort_reason": o.State.Abort})
}

// thinking reports whether the strategist is being asked.
func (d *drive) thinking() bool {
	return slices.ContainsFunc(d.Tasks, func(t objective.Task) bool { return t.Purpose == strategy && !t.Applied })
}

// tick asks the strategist, if it is time.
func (d *drive) tick() {
	now, s := d.Clock.Now(), &d.rec.State
	asked := d.rec.TickNow && !d.ticked
	if d.thinking() || !asked && now.Before(s.NextTick) {
		return
	}
	d.ticked = d.ticked || asked
	s.NextTick, s.Ticks = d.nextTick(d.i, now), s.Ticks+1
	for i := range d.Objectives {
		s.Sources = model.JoinSources(s.Sources, d.Objectives[i].State.Sources)
	}
	d.i.LastTickAt = &now
	d.change(func(i *Initiative) { i.LastTickAt = &now })
	d.Journal.Emit("initiative.tick_start", map[string]any{"tick": s.Ticks})
	message, instructions := d.brief()
	d.Plan(objective.Task{
		Purpose: strategy, Attempt: 1, AgentID: d.i.StrategistAgentID, Message: message, Instructions: instructions, Inherited: s.Sources,
	})
}

// store commits what was decided, with what proves that the work is still held.
func (d *drive) store(lease txn.Op) error {
	changes, added, dropped, emits, ticked := d.changes, d.added, d.dropped, d.emits, d.ticked
	owner := func(tx txn.Tx) error {
		if len(changes) > 0 {
			_, err := d.inner.UpdateTx(tx, authz.Caller{TenantID: d.TenantID}, d.ID, func(i *Initiative) error {
				for _, do := range changes {
					do(i)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		if err := d.States.UpdateTx(tx, d.TenantID, d.ID, &d.rec.State, d.rec.EventSeq, ticked); err != nil {
			return err
		}
		if err := d.Crew.Store.DeleteObjectivesTx(tx, d.TenantID, d.ID, dropped); err != nil {
			return err
		}
		if err := d.Crew.Store.CreateTx(tx, d.TenantID, d.ID, added); err != nil {
			return err
		}
		for _, emit := range emits {
			if err := emit(tx); err != nil {
				return err
			}
		}
		return nil
	}
	if err := d.Commit(owner, lease, false); err != nil {
		return err
	}
	d.changes, d.added, d.dropped, d.emits = nil, nil, nil, nil
	if ticked {
		d.rec.TickNow, d.ticked = false, false
	}
	return nil
}
