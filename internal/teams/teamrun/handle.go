package teamrun

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	kernelwork "agentd/internal/kernel/work"
	"agentd/internal/teams/group"
)

// recheck is after how long a team run looks at its members although none has ended.
const recheck = time.Hour

// drive is one worker's holding of a team run.
type drive struct {
	*Service
	ctx     context.Context
	lease   kernelwork.Lease
	r       *Record
	tasks   []Task
	changed map[int]bool // seqs of tasks to be stored
	journal group.Journal
	ops     []txn.Op
	poll    time.Time // when to look at tasks of external workers again; zero: they wake the run
}

// Handle is the work.Handler of WorkKind.
func (s *Service) Handle(ctx context.Context, lease kernelwork.Lease) error {
	r, err := s.Store.Get(ctx, lease.TenantID, lease.Key)
	if fault.Is(err, fault.NotFound) || err == nil && r.Status.Final() {
		return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, lease) })
	}
	if err != nil {
		return err
	}
	d := &drive{Service: s, ctx: ctx, lease: lease, r: r, changed: map[int]bool{}}
	d.journal = group.Journal{Log: s.Log, Hub: s.Hub, Clock: s.Clock, Tenant: r.TenantID, Stream: r.TeamRunID, Seq: &r.EventSeq}
	d.journal.Tell, d.journal.TeamID = s.Tell, r.TeamID
	if d.tasks, err = s.Store.ListTasks(ctx, r.TenantID, r.TeamRunID); err != nil {
		return err
	}
	if err := d.step(); !errors.Is(err, ErrOver) {
		return err
	}
	// The team was deleted, or another worker ended the run.
	return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, lease) })
}

// step looks which tasks have ended, stores what follows, and starts it. Tasks are
// stored before their runs exist, under ids that follow from them, so that a worker
// that takes over finds every run that was started.
func (d *drive) step() error {
	if err := d.observe(); err != nil {
		return err
	}
	if d.r.Cancel || d.late(d.r.CreatedAt, d.r.Spec.Policies.TimeoutMS) {
		return d.stop()
	}
	if d.r.Status == Pending {
		d.r.Status = Running
		d.journal.Emit("team.run_started", map[string]any{"team_id": d.r.TeamID})
	}
	chosen := next(&d.r.Spec, d.r.Message, d.tasks)
	if chosen.status != "" {
		return d.end(chosen)
	}
	for _, t := range chosen.tasks {
		d.plan(t)
	}
	if len(chosen.tasks) > 0 {
		if err := d.commit(func(tx txn.Tx) error { return d.Queue.HoldTx(tx, d.lease, d.Lease) }); err != nil {
			return err
		}
	}
	ended, err := d.start()
	if err != nil {
		return err
	}
	return d.commit(func(tx txn.Tx) error { return d.wait(tx, ended) })
}

// late reports whether a time in milliseconds has passed since at; 0: there is none.
func (d *drive) late(at time.Time, ms int64) bool {
	return ms > 0 && !d.Clock.Now().Before(at.Add(time.Duration(ms)*time.Millisecond))
}

// observe notes which runs of members have ended, and cancels those whose time is up.
func (d *drive) observe() error {
	for i := range d.tasks {
		t := &d.tasks[i]
		if !t.Started || t.ended() {
			continue
		}
		if worker := d.external(t); worker != nil {
			if err := d.observeExternal(t); err != nil {
				return err
			}
			continue
		}
		r, err := d.Runs.Get(d.ctx, d.r.TenantID, t.RunID)
		switch {
		case fault.Is(err, fault.NotFound):
			d.finish(t, run.Failed, "", "Its run was deleted.")
		case err != nil:
			return err
		case !r.Status.Final():
			if !d.late(t.At, d.r.Spec.Policies.SubtaskTimeoutMS) {
				continue
			}
			if err := d.cancelTask(t); err != nil {
				return err
			}
			d.finish(t, run.TimedOut, "", "It took longer than policies.subtask_timeout_ms.")
		default:
			if err := d.finishRun(t, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// cancelTask ends what does a task.
func (d *drive) cancelTask(t *Task) error {
	if d.external(t) != nil {
		return d.External.Cancel(d.ctx, d.r.TenantID, t.RunID)
	}
	if _, err := d.Runs.Cancel(d.ctx, d.r.TenantID, t.RunID); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// finishRun ends a task as its run ended.
func (d *drive) finishRun(t *Task, r *run.Run) error {
	sentence := "Its run ended as " + string(r.Status) + "."
	if r.Error != nil && *r.Error != "" {
		sentence = *r.Error
	}
	var out run.Output
	if r.Status == run.Completed {
		sentence = ""
		if err := json.Unmarshal(r.Output, &out); err != nil {
			return err
		}
	}
	t.InputTokens, t.OutputTokens = r.Metrics.InputTokens, r.Metrics.OutputTokens
	t.CostUSD = ptr.Value(r.Metrics.TotalCostUSD)
	t.Sources = out.Sources
	d.finish(t, r.Status, out.Text, sentence)
	return nil
}

func (d *drive) finish(t *Task, status run.Status, text, sentence string) {
	if text != "" {
		t.Sources = model.JoinSources(t.Inherited, t.Sources, []string{model.SourceMessage(t.AgentID)})
	}
	t.Status, t.Text, t.Error, t.EndedAt = status, text, sentence, d.Clock.Now()
	d.changed[t.Seq] = true
	d.journal.Emit("team.task_ended", map[string]any{"agent_id": t.AgentID, "run_id": t.RunID, "round": t.Round, "status": t.Status})
}

// plan adds a task. It inherits what the answers that there are by now were made of:
// which of them its message repeats is for its topology to say, and a rule that asks for
// a source must hold for all of them.
func (d *drive) plan(t Task) {
	t.Inherited = d.r.Spec.Sources
	for i := range d.tasks {
		t.Inherited = model.JoinSources(t.Inherited, d.tasks[i].Sources)
	}
	t.Seq, t.At = len(d.tasks)+1, d.Clock.Now()
	t.RunID = ident.Derive(d.r.TeamRunID, "task", itoa(int64(t.Seq)))
	if t.Slot == 0 {
		t.Slot, t.Attempt = t.Seq, 1
	}
	if len(d.tasks) == 0 || d.tasks[len(d.tasks)-1].Round < t.Round {
		d.journal.Emit("team.round_start", map[string]any{"round": t.Round})
	}
	d.tasks = append(d.tasks, t)
	d.changed[t.Seq] = true
}

// start starts the runs of planned tasks, as many at a time as the team may have, and
// reports whether a task ended at once because its run could not be started.
func (d *drive) start() (ended bool, err error) {
	under := 0
	for i := range d.tasks {
		if d.tasks[i].Started && !d.tasks[i].ended() {
			under++
		}
	}
	for i := range d.tasks {
		t := &d.tasks[i]
		if t.Started || t.ended() || under >= d.r.Spec.Policies.MaxConcurrency {
			continue
		}
		err := d.startRun(t)
		if errors.Is(err, ErrOver) {
			return false, err
		}
		if f := fault.From(err); f != nil && (f.Kind == fault.Internal || f.Kind == fault.Unavailable) {
			return false, err
		}
		t.Started, t.At = true, d.Clock.Now()
		d.changed[t.Seq] = true
		if err != nil {
			d.finish(t, run.Rejected, "", fault.From(err).Detail)
			ended = true
			continue
		}
		under++
		d.journal.Emit("team.task_started", map[string]any{"agent_id": t.AgentID, "run_id": t.RunID, "round": t.Round, "purpose": t.Purpose})
	}
	return ended, nil
}

// startRun starts the run of a task, unless an earlier worker has.
func (d *drive) startRun(t *Task) error {
	if t.AgentID != d.r.Spec.Supervisor {
		if err := d.judge(t); err != nil {
			return err
		}
	}
	in := run.Input{
		Message: t.Message, History: d.r.Spec.History,
		Instructions: strings.TrimSpace(d.r.Spec.Instructions + "\n\n" + t.Instructions),
	}
	if worker := d.external(t); worker != nil {
		return d.startExternal(t, worker, in)
	}
	input, err := json.Marshal(in)
	if err != nil {
		return err
	}
	metadata, err := json.Marshal(origin{"team", d.r.TeamID, d.r.TeamRunID, t.Purpose})
	if err != nil {
		return err
	}
	req := run.Request{
		RunID: t.RunID, AgentID: t.AgentID, Input: schema.Object(input), Metadata: schema.Object(metadata), TeamRunID: d.r.TeamRunID,
		Wakes: run.Wakes{Kind: WorkKind, Key: d.r.TeamRunID}, Options: run.Options{WorkspaceID: d.r.Spec.Workspace, Sources: t.Inherited},
		// Whoever deletes or ends the team run finds the member's run, or comes first.
		Admit: func(tx txn.Tx, _ *run.Record) (bool, error) {
			return true, d.Store.LockTx(tx, d.r.TenantID, d.r.TeamRunID)
		},
		Budgets: d.r.Spec.Budgets,
	}
	if t.Purpose == lead {
		req.Options.Grants = []string{ToolName}
	}
	req.Limits = d.r.Spec.limits(t.AgentID)
	who := authz.Caller{TenantID: d.r.TenantID, KeyID: d.r.KeyID, UserID: d.r.UserID}
	_, err = d.Runs.Create(d.ctx, who, req)
	if f := fault.From(err); f != nil && f.Kind == fault.Conflict && f.Code == "ALREADY_EXISTS" {
		return nil
	}
	return err
}

// origin is the metadata of the runs of members.
type origin struct {
	Source    string `json:"source"`
	TeamID    string `json:"team_id"`
	TeamRunID string `json:"team_run_id"`
	Purpose   string `json:"purpose"`
}

// limits returns the limits of a member's runs.
func (s *Spec) limits(agentID string) run.Limits {
	i := slices.IndexFunc(s.Members, func(m Member) bool { return m.AgentID == agentID })
	if i < 0 {
		return run.Limits{}
	}
	return run.Limits{MaxTokensPerRun: s.Members[i].MaxTokens, MaxSteps: s.Members[i].MaxSteps}
}

// judge asks the rules of the company whether a member may be given its task.
func (d *drive) judge(t *Task) error {
	from := d.r.Spec.Supervisor
	if from == "" {
		from = d.r.Spec.Initial
	}
	of := policy.Run{TenantID: d.r.TenantID, RunID: t.RunID, AgentID: from}
	record, err := group.Judge(d.ctx, d.Governor, of, group.Given{AgentID: t.AgentID, Message: t.Message, Sources: t.Inherited})
	if record != nil {
		d.ops = append(d.ops, record)
	}
	return err
}

// wait lets go of the work until a member's run ends or a time is up. again: more is to
// be decided at once.
func (d *drive) wait(tx txn.Tx, again bool) error {
	now := d.Clock.Now()
	until, ids := now.Add(recheck), []string(nil)
	sooner := func(at time.Time, ms int64) {
		if end := at.Add(time.Duration(ms) * time.Millisecond); ms > 0 && end.Before(until) {
			until = end
		}
	}
	sooner(d.r.CreatedAt, d.r.Spec.Policies.TimeoutMS)
	for i := range d.tasks {
		if t := &d.tasks[i]; t.Started && !t.ended() {
			if d.external(t) == nil {
				ids = append(ids, t.RunID)
			}
			sooner(t.At, d.r.Spec.Policies.SubtaskTimeoutMS)
		}
	}
	if !d.poll.IsZero() && d.poll.Before(until) {
		until = d.poll
	}
	if again {
		until = now
	}
	if err := d.Queue.RescheduleTx(tx, d.lease, until, nil); err != nil || again {
		return err
	}
	// What happened while this worker held the work woke nothing.
	cancel, err := d.Store.HasCancelRequestTx(tx, d.r.TenantID, d.r.TeamRunID)
	if err != nil {
		return err
	}
	unfinished, err := d.Unfinished(tx, d.r.TenantID, ids)
	if err != nil || !cancel && unfinished == len(ids) {
		return err
	}
	return d.Queue.EnqueueTx(tx, d.item(d.r))
}

// stop ends the run without a result: a caller requested it, or its time is up.
func (d *drive) stop() error {
	chosen := decision{status: Failed, reason: "The run of the team took longer than policies.timeout_ms."}
	if d.r.Cancel {
		chosen = decision{status: Cancelled, reason: "The run of the team was cancelled."}
	}
	return d.end(chosen)
}

// end ends the run, and the runs of members that have not.
func (d *drive) end(chosen decision) error {
	for i := range d.tasks {
		t := &d.tasks[i]
		if t.ended() {
			continue
		}
		if err := d.cancelTask(t); err != nil {
			return err
		}
		d.finish(t, run.Cancelled, "", "The run of the team ended.")
	}
	d.r.Status, d.r.Output, d.r.Error, d.r.CompletedAt = chosen.status, chosen.output, chosen.reason, d.Clock.Now()
	d.journal.Emit("team."+string(chosen.status), map[string]any{"output": chosen.output, "error": chosen.reason})
	return d.commit(func(tx txn.Tx) error {
		if wakes := d.r.Spec.Wakes; wakes.Kind != "" {
			item := kernelwork.Item{Kind: wakes.Kind, Key: wakes.Key, TenantID: d.r.TenantID, Due: d.Clock.Now()}
			if err := d.Queue.EnqueueTx(tx, item); err != nil {
				return err
			}
		}
		return d.Queue.FinishTx(tx, d.lease)
	})
}

// commit stores what was collected. lease proves that the work is still held.
func (d *drive) commit(lease func(txn.Tx) error) error {
	var tasks []Task
	for _, t := range d.tasks {
		if d.changed[t.Seq] {
			tasks = append(tasks, t)
		}
	}
	err := d.Writer.Write(d.ctx, func(tx txn.Tx) error {
		if err := lease(tx); err != nil {
			return err
		}
		if err := d.Store.UpdateTx(tx, d.r); err != nil {
			return err
		}
		if err := d.Store.PutTasksTx(tx, d.r.TenantID, d.r.TeamRunID, tasks); err != nil {
			return err
		}
		for _, op := range d.ops {
			if err := op(tx); err != nil {
				return err
			}
		}
		return d.journal.AppendTx(tx)
	})
	if err != nil {
		return err
	}
	d.journal.Publish(d.r.Status.Final())
	d.ops, d.changed = nil, map[int]bool{}
	return nil
}
