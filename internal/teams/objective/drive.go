package objective

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	kernelwork "agentd/internal/kernel/work"
	"agentd/internal/teams/group"
)

// Crew is what it takes to pursue objectives.
type Crew struct {
	Store    Store
	Runs     group.Runs
	Teams    group.Teams
	Purse    Purse
	Writer   txn.Writer
	Queue    kernelwork.Queue
	Log      event.Log
	Hub      *event.Hub
	Clock    clock.Clock
	Governor policy.Governor // nil: there is no governance
	Lease    time.Duration
	// Unfinished returns how many of the runs exist and have not ended; see run.Store.
	Unfinished func(tx txn.Tx, tenant string, ids []string) (int, error)
	Tell       group.Teller // of the events of groups; nil: nobody is notified
}

// Owner is what objectives are part of.
type Owner struct {
	TenantID  string
	ID        string
	Kind      string // mission or initiative, as runs name it
	WorkKind  string // of the work that drives it; the key is ID
	KeyID     string // in whose name runs are started; "": none
	UserID    string
	Lead      string   // the agent that gives the tasks, as rules judge it
	Workspace string   // where its runs work; "": each agent in its own
	Budgets   []string // that all of its runs spend from
	// LockTx locks the owner in the transaction that starts a run. Errors: ErrOver where
	// it has ended or is gone.
	LockTx func(tx txn.Tx) error
}

// Drive is one worker's holding of an owner.
type Drive struct {
	*Crew
	Owner
	Set
	Ctx     context.Context
	Held    kernelwork.Lease
	Journal group.Journal
	TaskSeq *int // number of the last task; stored with the owner

	changed map[int]bool // seqs of tasks to be stored
	ops     []txn.Op
}

// Then adds to the next commit.
func (d *Drive) Then(op txn.Op) { d.ops = append(d.ops, op) }

func (d *Drive) change(t *Task) {
	if d.changed == nil {
		d.changed = map[int]bool{}
	}
	d.changed[t.Seq] = true
}

// Observe notes which runs have ended.
func (d *Drive) Observe() error {
	d.Now = d.Clock.Now()
	for i := range d.Tasks {
		t := &d.Tasks[i]
		if !t.Started || t.Ended() {
			continue
		}
		r, sources, err := d.look(t)
		switch {
		case fault.Is(err, fault.NotFound):
			d.finish(t, run.Failed, "", "Its run was deleted.")
		case err != nil:
			return err
		case r.Status.Final():
			if err := d.finishRun(t, r, sources); err != nil {
				return err
			}
		}
	}
	return nil
}

// look returns the run of a task, with the sources of a team's answer.
func (d *Drive) look(t *Task) (*run.Run, []string, error) {
	if t.TeamID != "" {
		return d.Teams.Get(d.Ctx, d.TenantID, t.RunID)
	}
	r, err := d.Runs.Get(d.Ctx, d.TenantID, t.RunID)
	return r, nil, err
}

func (d *Drive) finishRun(t *Task, r *run.Run, sources []string) error {
	text, sentence, err := group.Result(r)
	if err != nil {
		return err
	}
	t.Tokens, t.Calls = r.Metrics.InputTokens+r.Metrics.OutputTokens, r.Metrics.LLMCallsCount
	t.CostUSD, t.ErrorCode, t.Sources = ptr.Value(r.Metrics.TotalCostUSD), r.ErrorCode, sources
	if t.TeamID == "" && r.Status == run.Completed {
		var out run.Output
		if err := json.Unmarshal(r.Output, &out); err != nil {
			return err
		}
		t.Sources = out.Sources
	}
	d.finish(t, r.Status, text, sentence)
	return nil
}

// finish ends a task.
func (d *Drive) finish(t *Task, status run.Status, text, sentence string) {
	if text != "" {
		who := t.AgentID
		if who == "" {
			who = t.TeamID
		}
		t.Sources = model.JoinSources(t.Inherited, t.Sources, []string{model.SourceMessage(who)})
	}
	t.Status, t.Text, t.Error, t.EndedAt = status, text, sentence, d.Now
	d.change(t)
	d.Journal.Emit("task_ended", map[string]any{
		"objective_id": t.ObjectiveID, "run_id": t.RunID, "purpose": t.Purpose, "status": t.Status,
	})
}

// Plan adds a task under an id that follows from its number, so that a worker that
// takes over finds its run.
func (d *Drive) Plan(t Task) {
	*d.TaskSeq++
	t.Seq, t.At = *d.TaskSeq, d.Now
	t.RunID = ident.Derive(d.ID, "task", strconv.Itoa(t.Seq))
	if len(t.Budgets) > 0 {
		if o := d.Find(t.ObjectiveID); o != nil {
			limit := run.NanoUSD(*o.Plan.Budget.MaxCostUSD)
			d.Then(func(tx txn.Tx) error { return d.Purse.PutBudgetTx(tx, d.TenantID, t.ObjectiveID, limit) })
		}
	}
	t.Budgets = append(append([]string(nil), d.Budgets...), t.Budgets...)
	d.Tasks = append(d.Tasks, t)
	d.change(&t)
}

// Advance plans what comes next for the objectives, and cancels what they do not need
// any more.
func (d *Drive) Advance() error {
	for _, t := range d.Next() {
		d.Plan(t)
	}
	for i := range d.Tasks {
		t := &d.Tasks[i]
		if t.Applied {
			t.Text, t.Message, t.Instructions = "", "", ""
			d.change(t)
			continue
		}
		if o := d.Find(t.ObjectiveID); o != nil && o.Over() && !t.Ended() {
			if err := d.Cancel(t, "Its objective is over."); err != nil {
				return err
			}
		}
	}
	return nil
}

// Cancel ends a task without a result, and its run.
func (d *Drive) Cancel(t *Task, why string) error {
	var err error
	switch {
	case t.TeamID != "":
		err = d.Writer.Write(d.Ctx, func(tx txn.Tx) error { return d.Teams.CancelTx(tx, d.TenantID, t.RunID) })
	default:
		_, err = d.Runs.Cancel(d.Ctx, d.TenantID, t.RunID)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	d.finish(t, run.Cancelled, "", why)
	t.Applied = true
	return nil
}

// CancelAll ends all tasks that have not ended.
func (d *Drive) CancelAll(why string) error {
	for i := range d.Tasks {
		if t := &d.Tasks[i]; !t.Ended() {
			if err := d.Cancel(t, why); err != nil {
				return err
			}
		}
	}
	return nil
}

// Planned reports whether a task is planned that was not started.
func (d *Drive) Planned() bool {
	for i := range d.Tasks {
		if !d.Tasks[i].Started && !d.Tasks[i].Ended() {
			return true
		}
	}
	return false
}

// Start starts the runs of planned tasks, which are stored by then. It reports whether a
// task ended at once because its run could not be started.
func (d *Drive) Start() (ended bool, err error) {
	for i := range d.Tasks {
		t := &d.Tasks[i]
		if t.Started || t.Ended() {
			continue
		}
		err := d.startRun(t)
		if errors.Is(err, ErrOver) || err != nil && !group.Refused(err) {
			return false, err
		}
		t.Started, t.At = true, d.Clock.Now()
		d.change(t)
		if err != nil {
			f := fault.From(err)
			t.ErrorCode = f.Code
			d.finish(t, run.Rejected, "", f.Detail)
			ended = true
			continue
		}
		d.Journal.Emit("task_started", map[string]any{
			"objective_id": t.ObjectiveID, "run_id": t.RunID, "purpose": t.Purpose, "agent_id": t.AgentID, "team_id": t.TeamID,
		})
	}
	return ended, nil
}

// origin is the metadata of runs.
type origin struct {
	Source      string `json:"source"`
	ID          string `json:"source_id"`
	ObjectiveID string `json:"objective_id,omitzero"`
	Purpose     string `json:"purpose"`
}

func (d *Drive) startRun(t *Task) error {
	if err := d.judge(t); err != nil {
		return err
	}
	metadata, err := json.Marshal(origin{d.Kind, d.ID, t.ObjectiveID, t.Purpose})
	if err != nil {
		return err
	}
	who, wakes := authz.Caller{TenantID: d.TenantID, KeyID: d.KeyID, UserID: d.UserID}, run.Wakes{Kind: d.WorkKind, Key: d.ID}
	if t.TeamID != "" {
		return d.Teams.Start(d.Ctx, who, group.TeamJob{
			TeamID: t.TeamID, ID: t.RunID, Message: t.Message, Instructions: t.Instructions, Metadata: metadata,
			Sources: t.Inherited, Budgets: t.Budgets, Wakes: wakes, Admit: d.LockTx,
		})
	}
	input, err := json.Marshal(run.Input{Message: t.Message, Instructions: t.Instructions})
	if err != nil {
		return err
	}
	req := run.Request{
		RunID: t.RunID, AgentID: t.AgentID, Input: schema.Object(input), Metadata: metadata, Wakes: wakes, Budgets: t.Budgets,
		Options: run.Options{WorkspaceID: d.Workspace, Sources: t.Inherited},
		Admit:   func(tx txn.Tx, _ *run.Record) (bool, error) { return true, d.LockTx(tx) },
	}
	if t.MaxTokens > 0 {
		req.Limits.MaxTokensPerRun = &t.MaxTokens
	}
	return group.Start(d.Ctx, d.Runs, who, req)
}

// judge asks the rules of the company whether the lead may give a task.
func (d *Drive) judge(t *Task) error {
	if t.AgentID == d.Lead || d.Lead == "" {
		return nil
	}
	to := t.AgentID
	if to == "" {
		to = t.TeamID
	}
	of := policy.Run{TenantID: d.TenantID, RunID: t.RunID, AgentID: d.Lead}
	record, err := group.Judge(d.Ctx, d.Governor, of, group.Given{AgentID: to, Message: t.Message, Sources: t.Inherited})
	if record != nil {
		d.Then(record)
	}
	return err
}

// Recheck is after how long an owner is looked at although nothing woke it.
const Recheck = time.Hour

// WaitTx lets go of the work until a run ends, or until a time that is sooner than
// Recheck; zero: none. asked reports whether a caller asked for something that this
// worker has not seen.
func (d *Drive) WaitTx(tx txn.Tx, until time.Time, again bool, asked func(txn.Tx) (bool, error)) error {
	now, ids := d.Clock.Now(), []string(nil)
	due := now.Add(Recheck)
	sooner := func(at time.Time) {
		if !at.IsZero() && at.Before(due) {
			due = at
		}
	}
	sooner(until)
	for i := range d.Objectives {
		if o := &d.Objectives[i]; !o.Over() {
			sooner(ptr.Value(o.Plan.Deadline))
		}
	}
	teams := false
	for i := range d.Tasks {
		if t := &d.Tasks[i]; t.Started && !t.Ended() {
			if t.TeamID != "" {
				teams = true
				continue
			}
			ids = append(ids, t.RunID)
		}
	}
	if again {
		due = now
	}
	if err := d.Queue.RescheduleTx(tx, d.Held, due, nil); err != nil || again {
		return err
	}
	// What happened while this worker held the work woke nothing.
	wanted, err := asked(tx)
	if err != nil {
		return err
	}
	unfinished, err := d.Unfinished(tx, d.TenantID, ids)
	if err != nil {
		return err
	}
	if teams && !wanted && unfinished == len(ids) {
		wanted, err = d.teamEnded()
		if err != nil {
			return err
		}
	}
	if !wanted && unfinished == len(ids) {
		return nil
	}
	return d.Queue.EnqueueTx(tx, d.Item())
}

// teamEnded reports whether the run of a team has ended by now.
func (d *Drive) teamEnded() (bool, error) {
	for i := range d.Tasks {
		t := &d.Tasks[i]
		if !t.Started || t.Ended() || t.TeamID == "" {
			continue
		}
		r, _, err := d.Teams.Get(d.Ctx, d.TenantID, t.RunID)
		if fault.Is(err, fault.NotFound) || err == nil && r.Status.Final() {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// AbandonTx has the runs of tasks cancelled, with what they were part of.
func (c *Crew) AbandonTx(tx txn.Tx, tenant string, open []Task) error {
	for i := range open {
		t := &open[i]
		if t.TeamID != "" {
			if err := c.Teams.CancelTx(tx, tenant, t.RunID); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			continue
		}
		item := kernelwork.Item{Kind: run.CancelWorkKind, Key: t.RunID, TenantID: tenant, Due: c.Clock.Now()}
		if err := c.Queue.EnqueueTx(tx, item); err != nil {
			return err
		}
	}
	return nil
}

// Item is the work that drives the owner, due now.
func (d *Drive) Item() kernelwork.Item {
	return kernelwork.Item{Kind: d.WorkKind, Key: d.ID, TenantID: d.TenantID, Due: d.Clock.Now()}
}

// Commit stores what was decided. owner stores the owner, whose row is locked before
// the work, as callers do; lease proves that the work is still held. final: no event
// comes after these.
func (d *Drive) Commit(owner, lease txn.Op, final bool) error {
	var tasks []Task
	for i := range d.Tasks {
		if d.changed[d.Tasks[i].Seq] {
			tasks = append(tasks, d.Tasks[i])
		}
	}
	states := d.Touched()
	err := d.Writer.Write(d.Ctx, func(tx txn.Tx) error {
		for _, do := range []txn.Op{
			owner, lease,
			func(tx txn.Tx) error { return d.Store.UpdateStatesTx(tx, d.TenantID, d.ID, states) },
			func(tx txn.Tx) error { return d.Store.PutTasksTx(tx, d.TenantID, d.ID, tasks) },
		} {
			if err := do(tx); err != nil {
				return err
			}
		}
		for _, do := range d.ops {
			if err := do(tx); err != nil {
				return err
			}
		}
		return d.Journal.AppendTx(tx)
	})
	if err != nil {
		return err
	}
	d.Journal.Publish(final)
	d.ops, d.changed = nil, nil
	return nil
}
